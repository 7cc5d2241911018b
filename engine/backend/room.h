#pragma once

#include "engine/backend/machine.h"

namespace dlflow {

/// What of a machine is free for jobs.
class Room {
 public:
  explicit Room(Machine machine);

  const Machine& machine() const { return machine_; }
  bool fits(const Resources& resources) const;

  /// Takes what a job asks for. Returns its GPUs, as CUDA_VISIBLE_DEVICES names them.
  std::vector<std::string> take(const Resources& resources);

  /// The same for a job that runs already, whether there is room for it or not. `gpus` are those it
  /// was given; returns those that this machine has.
  std::vector<std::string> take(const Resources& resources, const std::vector<std::string>& gpus);

  void give_back(const Resources& resources, const std::vector<std::string>& gpus);

 private:
  Machine machine_;
  int free_cores_;       // may be below 0: jobs that run already are not asked
  int64_t free_memory_;  // the same
  std::vector<std::string> free_gpus_;
};

}  // namespace dlflow
