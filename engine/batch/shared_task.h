#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "engine/batch/allocation.h"
#include "engine/batch/attempt.h"
#include "engine/batch/batch_file.h"
#include "engine/batch/pass.h"

namespace dlflow {

/// A task that several elements share: it runs one after the other, each as its own attempt with
/// its own record. What has an end is passed over, so that the task goes on where an earlier pass
/// stopped; what fails stops nobody else. An element that is to run again waits until the others
/// had their turn: then the task has itself requeued for all that is left.
///
/// SIGTERM is for the task: the one at work is told, and none begins after it. SIGUSR1 says that
/// the time limit is near: the one at work saves if it can, and the rest waits for the next pass.
/// The task ends with 0 if each has an end on record, whatever that is: what waits for one of them
/// looks itself.
class SharedTask {
 public:
  /// `allocation` outlives it. `tasks` has the elements in their order.
  SharedTask(std::vector<BatchTask> tasks, const Allocation& allocation);

  /// Runs what has no end yet. Returns the exit status for the batch system.
  int run();

 private:
  void hear(StopCause cause);
  void run_element(const BatchTask& task);
  int requeue();
  /// Of the next pass, if an element needs more time in it; never less than that of the first.
  std::chrono::minutes limit() const;

  const std::vector<BatchTask> tasks_;
  const Allocation& allocation_;
  TaskPasses passes_;
  std::vector<Attempt> again_;  // have another pass
  size_t num_left_ = 0;         // had no turn
  std::string work_of_others_;  // the folder of an attempt that another job has
  bool has_begun_ = false;      // one of them has, in this pass
  bool is_terminated_ = false;  // SIGTERM came
  bool is_warned_ = false;      // SIGUSR1 came
  bool is_stopped_ = false;
  bool is_unrecorded_ = false;
};

}  // namespace dlflow
