#include "runtime/train/network_set.h"

namespace dlflow::runtime {

NetworkSet::NetworkSet(const Model& model, int64_t batch_size, Network::Mode mode,
                       std::shared_ptr<const WeightLayout> layout)
    : model_(model), mode_(mode), layout_(std::move(layout)) {
  layout_ = get(batch_size).layout();
}

Network& NetworkSet::get(int64_t batch_size) {
  const auto found = networks_.find(batch_size);
  if (found != networks_.end()) return found->second;
  return networks_.emplace(batch_size, Network(model_, batch_size, mode_, layout_)).first->second;
}

}  // namespace dlflow::runtime
