#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>

#include "runtime/nn/network.h"

namespace dlflow::runtime {

/// One model for every batch size that comes up: full batches, the smaller one at an epoch's end;
/// and for every length of texts. All share the layout of the first.
class NetworkSet {
 public:
  /// Builds the network for `batch_size`, the usual one. With a layout, that is used instead. Each
  /// takes at most `most_bytes` (Network).
  NetworkSet(const Model& model, int64_t batch_size, Network::Mode mode,
             std::shared_ptr<const WeightLayout> layout = nullptr,
             Compute compute = Compute::Float32, size_t most_bytes = SIZE_MAX);

  const std::shared_ptr<const WeightLayout>& layout() const { return layout_; }

  /// Network::joint_sums() of each.
  std::vector<size_t> joint_sums() const { return networks_.begin()->second.network.joint_sums(); }

  /// Network::use_timeline() of each.
  void use_timeline(Timeline& timeline);

  /// Network::use_label_smoothing() of each.
  void use_label_smoothing(double smoothing);

  /// Network::use_class_weights() of each.
  void use_class_weights(std::span<const float> weights);

  /// Network::products() of each; Network::leave_products_to() of each.
  std::vector<ProductShape> products() const {
    return networks_.begin()->second.network.products();
  }
  void leave_products_to(OuterProducts& products);

  /// The weights of all networks from now on, as Network::use_weights; to be called again whenever
  /// a number in it has changed.
  void use_weights(std::span<const float> weights, std::function<void(size_t)> await = {});

  /// The network for `batch_size`, with the weights; built when it is asked for first. Passes that
  /// are under way at the same time need different `instance`s. `length`: positions of texts that
  /// it is for, if not all that the model has (with_length).
  Network& get(int64_t batch_size, size_t instance = 0, int64_t length = 0);

 private:
  struct Entry {
    Network network;
    uint64_t version = 0;  ///< of the weights that it has
  };
  struct Key {
    int64_t batch_size;
    size_t instance;
    int64_t length;  ///< 0: all
    auto operator<=>(const Key&) const = default;
  };
  Entry& find_or_build(const Key& key);
  void set(std::function<void(Network&)> setting);

  Model model_;
  Network::Mode mode_;
  Compute compute_;
  size_t most_bytes_;
  std::shared_ptr<const WeightLayout> layout_;
  std::map<Key, Entry> networks_;
  std::span<const float> weights_;
  std::function<void(size_t)> await_;
  uint64_t version_ = 0;
  std::vector<std::function<void(Network&)>> settings_;  // of all networks, also later ones
};

}  // namespace dlflow::runtime
