#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/plan/job.h"
#include "engine/plan/plan.h"

/// Where jobs run: all that the engine knows of a machine or a cluster.
namespace dlflow {

/// One pass of one attempt of a job. A pair (attempt, pass) is executed at most once, however often
/// it is handed over.
struct Submission {
  uint32_t job = 0;  ///< its number in the plan; what updates and stop() call it
  std::string name;
  int attempt = 1;
  int pass = 1;
  std::filesystem::path job_directory;
  Resources resources;
  uint64_t events_read = 0;  ///< bytes of the attempt's events.jsonl that the engine knows already
};

/// News of a submitted job.
struct Update {
  uint32_t job = 0;
  JobEvent event;         ///< with job and attempt filled in
  bool recorded = false;  ///< it is in the attempt's events.jsonl; else the engine has to record it
};

/// The fate of a job that an earlier engine handed over, or was about to.
enum class Recovery {
  NotStarted,  ///< submit it, as the same attempt and pass
  Watched,     ///< it runs, and its updates will come
  Vanished,    ///< it ran and left no record of its end; what was left of it is gone now
};

enum class Stop {
  AndSave,  ///< asked to save a checkpoint and to end
  AtOnce,   ///< killed
};

/// One thread calls a Backend, and no call but wait() takes long. Implementations: LocalBackend,
/// tests/support/FakeBackend.
class Backend {
 public:
  virtual ~Backend() = default;

  /// Throws Error{InvalidInput} naming the step, what it asks for and what there is, if a job of
  /// `plan` could never run here. Called before anything of the run exists.
  virtual void check(const Plan& plan) const = 0;

  /// The run whose jobs follow; its folder is there.
  virtual void begin(const std::filesystem::path& run_directory) = 0;

  /// Whether a job that asks for `resources` would start at once.
  virtual bool has_room(const Resources& resources) const = 0;

  /// Hands over a job whose attempt folder is complete. Throws Error: Unavailable if it cannot be
  /// taken now.
  virtual void submit(const Submission& submission) = 0;

  /// Looks for a job that an earlier engine handed over, and takes charge of it if it runs. Throws
  /// Error{Unavailable} if that cannot be known from here (it runs on another host).
  virtual Recovery recover(const Submission& submission) = 0;

  /// A pass that waits, and that an earlier engine may have handed over, shall never begin. False
  /// if it has begun: recover() finds it.
  virtual bool withdraw(const Submission& submission) = 0;

  /// What is new, in the order it happened for each job. Waits for it up to `timeout`, until there
  /// is room again, or until the descriptor `interrupt` becomes readable. A job's final state frees
  /// its place; after Queued the next pass is for the engine to submit.
  virtual std::vector<Update> wait(std::chrono::milliseconds timeout, int interrupt) = 0;

  /// Asks for the end of a submitted job; how it ended comes as an update. A job that has ended
  /// stays as it is.
  virtual void stop(uint32_t job, Stop how) = 0;
};

}  // namespace dlflow
