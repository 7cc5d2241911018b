#include "runtime/train/network_set.h"

#include <utility>

#include "runtime/nn/sequence_length.h"

namespace dlflow::runtime {

NetworkSet::NetworkSet(const Model& model, int64_t batch_size, Network::Mode mode,
                       std::shared_ptr<const WeightLayout> layout, Compute compute,
                       size_t most_bytes)
    : model_(model),
      mode_(mode),
      compute_(compute),
      most_bytes_(most_bytes),
      layout_(std::move(layout)) {
  layout_ = find_or_build({batch_size, 0, 0}).network.layout();
}

NetworkSet::Entry& NetworkSet::find_or_build(const Key& key) {
  const auto found = networks_.find(key);
  if (found != networks_.end()) return found->second;
  Entry entry{Network(key.length > 0 ? with_length(model_, key.length) : model_, key.batch_size,
                      mode_, layout_, compute_, most_bytes_)};
  for (const auto& setting : settings_) setting(entry.network);
  return networks_.emplace(key, std::move(entry)).first->second;
}

void NetworkSet::set(std::function<void(Network&)> setting) {
  for (auto& [size, entry] : networks_) setting(entry.network);
  settings_.push_back(std::move(setting));
}

void NetworkSet::use_weights(std::span<const float> weights, std::function<void(size_t)> await) {
  weights_ = weights;
  await_ = std::move(await);
  ++version_;
}

Network& NetworkSet::get(int64_t batch_size, size_t instance, int64_t length) {
  Entry& entry = find_or_build({batch_size, instance, length == model_.input[0] ? 0 : length});
  if (entry.version != version_) entry.network.use_weights(weights_, await_);
  entry.version = version_;
  return entry.network;
}

}  // namespace dlflow::runtime
