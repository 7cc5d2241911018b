#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>

#include "runtime/nn/network.h"

namespace dlflow::runtime {

/// One network for every batch size that occurs (full batches, the smaller one at an epoch's end)
/// and for every length of texts. All share the layout of the first.
class NetworkSet {
 public:
  /// Builds the network for `batch_size`, the usual one, with `layout` if one is given. Each
  /// network takes at most `most_bytes` (Network).
  NetworkSet(const Model& model, int64_t batch_size, Network::Mode mode,
             std::shared_ptr<const WeightLayout> layout = nullptr,
             Compute compute = Compute::Float32, size_t most_bytes = SIZE_MAX);

  const std::shared_ptr<const WeightLayout>& layout() const { return layout_; }

  /// Returns Network::joint_sums(), which are the same for all networks.
  std::vector<size_t> joint_sums() const { return networks_.begin()->second.network.joint_sums(); }

  /// Returns Network::products(), which are the same for all networks.
  std::vector<ProductShape> products() const {
    return networks_.begin()->second.network.products();
  }

  /// Calls `setting` for each network, including later ones.
  void set(std::function<void(Network&)> setting);

  /// Sets the weights of all networks, as Network::use_weights; must be called again whenever one
  /// of them has changed.
  void use_weights(std::span<const float> weights, std::function<void(size_t)> await = {});

  /// Returns the network for `batch_size`, with the weights; builds it on first use. Passes that
  /// run at the same time need different `instance`s. `length`: text positions, or 0 for all of the
  /// model's (with_length).
  Network& get(int64_t batch_size, size_t instance = 0, int64_t length = 0);

 private:
  struct Entry {
    Network network;
    uint64_t version = 0;  ///< version of its weights
  };
  struct Key {
    int64_t batch_size;
    size_t instance;
    int64_t length;  ///< 0: all
    auto operator<=>(const Key&) const = default;
  };
  Entry& find_or_build(const Key& key);

  Model model_;
  Network::Mode mode_;
  Compute compute_;
  size_t most_bytes_;
  std::shared_ptr<const WeightLayout> layout_;
  std::map<Key, Entry> networks_;
  std::span<const float> weights_;
  std::function<void(size_t)> await_;
  uint64_t version_ = 0;
  std::vector<std::function<void(Network&)>> settings_;
};

}  // namespace dlflow::runtime
