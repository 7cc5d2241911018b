#include "runtime/train/next_batch.h"

#include <optional>

namespace dlflow::runtime {

LocalBatch next_batch(const Communicator& comm, Loader& loader, StepImages* images) {
  std::optional<Activity> activity;
  if (images != nullptr) activity.emplace(comm, "waits for data", &images->arrivals());
  return loader.next();
}

}  // namespace dlflow::runtime
