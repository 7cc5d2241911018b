#pragma once

#include <map>
#include <memory>
#include <span>

#include "runtime/nn/network.h"

namespace dlflow::runtime {

/// One model for every batch size that comes up: full batches, the smaller one at an epoch's end.
/// All share the layout of the first.
class NetworkSet {
 public:
  /// Builds the network for `batch_size`, the usual one. With a layout, that is used instead.
  NetworkSet(const Model& model, int64_t batch_size, Network::Mode mode,
             std::shared_ptr<const WeightLayout> layout = nullptr);

  const std::shared_ptr<const WeightLayout>& layout() const { return layout_; }

  /// The weights of all networks from now on, as Network::use_weights; to be called again whenever
  /// a number in it has changed.
  void use_weights(std::span<const float> weights);

  /// The network for `batch_size`, with the weights; built when it is asked for first.
  Network& get(int64_t batch_size);

 private:
  struct Entry {
    Network network;
    uint64_t version = 0;  ///< of the weights that it has
  };
  Entry& find_or_build(int64_t batch_size);

  Model model_;
  Network::Mode mode_;
  std::shared_ptr<const WeightLayout> layout_;
  std::map<int64_t, Entry> networks_;
  std::span<const float> weights_;
  uint64_t version_ = 0;
};

}  // namespace dlflow::runtime
