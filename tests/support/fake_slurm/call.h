#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/handle.h"
#include "tests/support/fake_slurm/world.h"

namespace dlflow::fake_slurm {

/// A fault in calls of one command, `count` times.
struct Fault {
  std::string command;
  std::string moment;  ///< before, after, late, output
  std::string effect;  ///< documented in README.md
  int count = 1;       ///< -1: for ever
  int late_calls = 0;
};

/// The content of the folder's state.json.
struct Stored {
  World world;
  std::vector<Fault> faults;
  bool background = false;   ///< scripts run as on a cluster, in real time
  Seconds clock_offset = 0;  ///< background: an offset to the real clock
};

/// slurmctld or slurmdbd did not answer; the command prints its own message.
struct Unreachable {
  std::string text;
};

/// One invocation of a command: the world, locked, and what is to be printed at its end.
///
/// A command calls request() where the real one sends to the server, changes the world, and calls
/// reply() where the real one would read the answer: the faults strike there.
class Call {
 public:
  /// Locks and loads the world of $FAKE_SLURM, a new one if there is none. `logged`: writes a line
  /// to calls.jsonl, and counts as a call for what arrives late. Throws Error.
  Call(std::vector<std::string> argv, bool logged);

  const std::vector<std::string>& argv() const { return argv_; }
  const std::filesystem::path& folder() const { return folder_; }
  World& world() { return state_.world; }
  Stored& state() { return state_; }

  void request() { strike("before"); }  ///< Throws Unreachable.
  void reply();                         ///< Throws Unreachable.

  /// sbatch: whether and when this submission should arrive late.
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
  std::string loaded_;  ///< the text of state.json
};

Seconds real_time();

// The commands: each returns the exit status.
int sbatch(Call& call);
int squeue(Call& call);
int sacct(Call& call);
int scontrol(Call& call);
int scancel(Call& call);
int sinfo(Call& call);
int control(Call& call);  ///< fake-slurm

/// `fake-slurm run-task JOB INDEX PASS`: runs the script of a started task to its end.
int run_task(JobId job, int index, int pass);

}  // namespace dlflow::fake_slurm
