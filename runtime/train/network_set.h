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

  /// The network for `batch_size`; built when it is asked for first.
  Network& get(int64_t batch_size);

 private:
  Model model_;
  Network::Mode mode_;
  std::shared_ptr<const WeightLayout> layout_;
  std::map<int64_t, Network> networks_;
};

}  // namespace dlflow::runtime
