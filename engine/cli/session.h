#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/report/run_table.h"
#include "engine/report/style.h"
#include "engine/run/verbs.h"
#include "engine/store/store.h"

namespace dlflow {

struct Command;
struct ReportedRun;

// The exit statuses of `dlflow`; docs/user/exit-status.md has the table.
constexpr int kDone = 0;
constexpr int kStepFailed = 1;
constexpr int kBadInput = 2;
constexpr int kBackendRefused = 3;
constexpr int kInterrupted = 130;

/// The exit status for an uncaught Error.
inline int exit_status(const Error& error) {
  return error.retryable() ? kBackendRefused : kBadInput;
}

/// The state that all subcommands share: common options, the store, and the exit status.
struct Session {
  ColorChoice color = ColorChoice::Auto;
  bool quiet = false;
  bool verbose = false;
  bool json = false;  ///< set by the --json of a subcommand that has one
  int status = kDone;

  Style style() const { return detect_style(1, color); }

  /// Opens the store on the first call: `validate` needs no writable folder.
  Store& store();

  /// The verbs on runs of a profile with this `scheduler:`.
  std::unique_ptr<Verbs> verbs(const std::string& scheduler);

 private:
  SystemClock clock_;
  std::unique_ptr<Store> store_;
};

/// Adds a subcommand with its examples, each after a newline. Its callback, set by the caller, does
/// the work.
CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& sentence,
                      const std::string& examples);

/// Adds an option or an argument with a value; help shows `type`.
template <class Value>
CLI::Option* add_value(CLI::App& command, const std::string& name, const std::string& type,
                       Value& value, const std::string& text) {
  return command.add_option(name, value, text)->type_name(type);
}

/// Adds `--json` to a reading verb.
void add_json_option(CLI::App& command, Session& session);

/// Adds the argument `RUN`: a run's name, or the beginning of it or of its number.
CLI::Option* add_run_argument(CLI::App& command, std::string& run);

/// Adds `-o,--output FILE`.
void add_output_option(CLI::App& command, std::string& file, const std::string& text);

/// Adds an option with one value, which may be repeated for several `values`.
void add_repeated_option(CLI::App& command, const std::string& option, const std::string& type,
                         std::vector<std::string>& values, const std::string& text);

/// Reads a run's status from the store, after recording what a killed dlflow left unrecorded.
RunStatus read_run(Session& session, const std::string& run);

/// Like read_run(), but first asks the cluster, if any. Removes the secrets of a run that has
/// succeeded.
RunStatus refresh_run(Session& session, const std::string& run, Detail detail = Detail::State);

/// Like refresh_run() for several runs; each cluster is asked once. A run whose folder is damaged
/// keeps its last known status.
std::map<std::string, RunStatus> refresh_runs(Session& session,
                                              const std::vector<std::string>& runs,
                                              Detail detail = Detail::State);

/// Like refresh_run(), with the progress of running jobs and the dependencies of steps.
RunView view_run(Session& session, const std::string& run, Detail detail = Detail::State);

/// All records of a run and of its jobs, refreshed first. Throws Error like load_run() if its
/// folder is gone or damaged.
ReportedRun read_reported_run(Session& session, const std::string& run,
                              Detail detail = Detail::Usage);

/// Calls track(), for a few seconds at most, if the workflow of `run` asks for it. Called by other
/// verbs after their own output; errors become warnings.
void keep_track(Session& session, const std::string& run);

/// The jobs that `word` names: one job, or all of a step. Throws Error{NotFound} with a suggestion
/// if it names none.
std::vector<JobRow> jobs_called(const RunStatus& status, const std::string& word);

/// Resolves `word` to a run's name, see Store::resolve; the newest run if it is empty.
std::string find_run(Session& session, const std::string& word);

/// Returns the call of a program of steps, such as dlflow-train, outside of any step: in `folder`,
/// without the variables of a step. Throws Error{NotFound} if it is not beside this program.
Command step_program(const std::string& name, const std::filesystem::path& folder,
                     const std::vector<std::string>& arguments);

/// Prints `json`, indented, with a newline.
void print_json(const Json& json);

}  // namespace dlflow
