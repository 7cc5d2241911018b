#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/plan/job.h"
#include "engine/plan/plan.h"

/// The interface through which the engine runs jobs on a machine or a cluster.
namespace dlflow {

/// One pass of one attempt of a job. Each pair (attempt, pass) runs at most once, even if it is
/// submitted repeatedly.
struct Submission {
  uint32_t job = 0;  ///< its number in the plan, used by updates and stop()
  JobName name;
  int attempt = 1;
  int pass = 1;
  std::filesystem::path job_directory;
  Resources resources;
  uint64_t events_read = 0;  ///< bytes of the attempt's events.jsonl that the engine has read
};

/// News of a submitted job.
struct Update {
  uint32_t job = 0;
  JobEvent event;         ///< including job and attempt
  bool recorded = false;  ///< in the attempt's events.jsonl; otherwise the engine records it
};

/// The fate of a job that an earlier engine submitted, or was about to submit.
enum class Recovery {
  NotStarted,  ///< submit it, as the same attempt and pass
  Watched,     ///< it runs, and wait() will return its updates
  Vanished,    ///< it ran, left no record of its end, and has no process left
};

enum class Stop {
  AndSave,  ///< asked to save a checkpoint and to end
  AtOnce,   ///< killed
};

/// A Backend is called by a single thread, and all calls except wait() return quickly.
/// Implementations: LocalBackend, tests/support/FakeBackend.
class Backend {
 public:
  virtual ~Backend() = default;

  /// Throws Error{InvalidInput} naming the step, its request and the resources that exist, if a job
  /// of `plan` could never run here. Called before anything of the run is created.
  virtual void check(const Plan& plan) const = 0;

  /// Sets the run for the following jobs. Its folder must exist.
  virtual void begin(const std::filesystem::path& run_directory) = 0;

  /// Whether a job that asks for `resources` would start at once.
  virtual bool has_room(const Resources& resources) const = 0;

  /// Submits a job whose attempt folder is complete. Throws Error: Unavailable if it cannot be
  /// accepted now.
  virtual void submit(const Submission& submission) = 0;

  /// Looks for a job that an earlier engine submitted, and takes charge of it if it runs. Throws
  /// Error{Unavailable} if that cannot be determined from here (it runs on another host).
  virtual Recovery recover(const Submission& submission) = 0;

  /// Prevents a waiting pass, which an earlier engine may have submitted, from ever starting.
  /// Returns false if it has started: recover() finds it.
  virtual bool withdraw(const Submission& submission) = 0;

  /// Returns new updates, in order for each job. Blocks until there are some, until room is freed
  /// that has_room() had refused, until `interrupt` is readable, or for at most `timeout`. A job's
  /// final state frees its resources; after Queued the engine must submit the next pass.
  virtual std::vector<Update> wait(std::chrono::milliseconds timeout, int interrupt) = 0;

  /// Stops a submitted job; an update follows with its end. A job that has ended is unaffected.
  virtual void stop(uint32_t job, Stop how) = 0;
};

}  // namespace dlflow
