#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/handle.h"
#include "tests/support/fake_slurm/world.h"

namespace dlflow::fake_slurm {

/// A fault in the next `count` calls of a command.
struct Fault {
  std::string command;
  std::string moment;  ///< before, after, late, output
  std::string effect;  ///< see README.md
  int count = 1;       ///< -1: for ever
  int late_calls = 0;
};

/// The content of the folder's state.json.
struct Stored {
  World world;
  std::vector<Fault> faults;
  bool background = false;   ///< scripts run in real time, as on a cluster
  Seconds clock_offset = 0;  ///< background: added to the real clock
};

/// slurmctld or slurmdbd did not answer; holds the command's message.
struct Unreachable {
  std::string text;
};

/// One invocation of a command: the locked world, and the output to print at the end.
///
/// A command calls request() where the real one contacts the server, changes the world, and calls
/// reply() where the real one reads the answer: faults occur there.
class Call {
 public:
  /// Locks and loads the world of $FAKE_SLURM, or creates it. `logged`: writes a line to
  /// calls.jsonl, and counts as a call for late submissions. Throws Error.
  Call(std::vector<std::string> argv, bool logged);

  const std::vector<std::string>& argv() const { return argv_; }
  const std::filesystem::path& folder() const { return folder_; }
  World& world() { return state_.world; }
  Stored& state() { return state_; }

  void request() { strike("before"); }  ///< Throws Unreachable.
  void reply();                         ///< Throws Unreachable.

  /// sbatch: whether and when this submission arrives late.
  std::optional<Late> take_late();

  std::string out, err;

  /// Appends "sbatch: error: `text`\n" to err and returns 1.
  int fail(const std::string& text);

  /// Starts, signals and kills processes as the world requests.
  void act();

  /// Writes the state, prints and returns `status`.
  int finish(int status);

  void save();

 private:
  void strike(const std::string& moment);
  std::optional<Fault> take(const std::string& moment);

  std::vector<std::string> argv_;
  std::string command_;
  std::filesystem::path folder_;
  FileDescriptor lock_;
  Stored state_;
  std::string loaded_;  ///< the original text of state.json
};

Seconds real_time();

// The commands; each returns the exit status.
int sbatch(Call& call);
int squeue(Call& call);
int sacct(Call& call);
int scontrol(Call& call);
int scancel(Call& call);
int sinfo(Call& call);
int control(Call& call);  ///< fake-slurm

/// `fake-slurm run-task JOB INDEX PASS`: runs a started task's script to its end.
int run_task(JobId job, int index, int pass);

}  // namespace dlflow::fake_slurm
