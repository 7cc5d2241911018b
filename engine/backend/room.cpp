#include "engine/backend/room.h"

#include <algorithm>
#include <utility>

namespace dlflow {

Room::Room(Machine machine)
    : machine_(std::move(machine)),
      free_cores_(machine_.cores),
      free_memory_(int64_t(machine_.memory_bytes)),
      free_gpus_(machine_.gpus) {}

bool Room::fits(const Resources& resources) const {
  return cores_taken(resources, machine_) <= free_cores_ &&
         int64_t(resources.memory_bytes) <= free_memory_ &&
         gpus_taken(resources) <= free_gpus_.size();
}

std::vector<std::string> Room::take(const Resources& resources) {
  const size_t num_gpus = std::min(gpus_taken(resources), free_gpus_.size());
  return take(resources, {free_gpus_.end() - ptrdiff_t(num_gpus), free_gpus_.end()});
}

std::vector<std::string> Room::take(const Resources& resources,
                                    const std::vector<std::string>& gpus) {
  free_cores_ -= cores_taken(resources, machine_);
  free_memory_ -= int64_t(resources.memory_bytes);
  std::vector<std::string> taken;
  for (const std::string& gpu : gpus) {
    if (std::erase(free_gpus_, gpu) > 0) taken.push_back(gpu);
  }
  return taken;
}

void Room::give_back(const Resources& resources, const std::vector<std::string>& gpus) {
  free_cores_ += cores_taken(resources, machine_);
  free_memory_ += int64_t(resources.memory_bytes);
  free_gpus_.insert(free_gpus_.end(), gpus.begin(), gpus.end());
}

}  // namespace dlflow
