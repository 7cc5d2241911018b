#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
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

// The exit statuses of `dlflow`; docs/user/exit-status.md has the table.
constexpr int kDone = 0;
constexpr int kStepFailed = 1;
constexpr int kBadInput = 2;
constexpr int kBackendRefused = 3;
constexpr int kInterrupted = 130;

/// The exit status for an Error that nothing could be done about.
inline int exit_status(const Error& error) {
  return error.retryable() ? kBackendRefused : kBadInput;
}

/// State that every subcommand shares: the common options, the store, and how it ends.
struct Session {
  ColorChoice color = ColorChoice::Auto;
  bool quiet = false;
  bool verbose = false;
  bool json = false;  ///< set by the --json of a subcommand that has one
  int status = kDone;

  Style style() const { return detect_style(1, color); }

  /// Opened when first asked for: `validate` needs no folder to write to.
  Store& store();

  /// The verbs on runs of a profile with this `scheduler:`.
  std::unique_ptr<Verbs> verbs(const std::string& scheduler);

 private:
  SystemClock clock_;
  std::unique_ptr<Store> store_;
};

/// Adds a subcommand with its examples, a newline before each; `parse_complete_callback` of the
/// result is what it does.
CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& sentence,
                      const std::string& examples);

/// An option, or an argument, with a value; help calls it `type`.
template <class Value>
CLI::Option* add_value(CLI::App& command, const std::string& name, const std::string& type,
                       Value& value, const std::string& text) {
  return command.add_option(name, value, text)->type_name(type);
}

/// The `--json` of a reading verb.
void add_json_option(CLI::App& command, Session& session);

/// The `RUN` of a verb: a run's name, or enough of it.
CLI::Option* add_run_argument(CLI::App& command, std::string& run);

/// `-o,--output FILE`
void add_output_option(CLI::App& command, std::string& file, const std::string& text);

/// An option with one value, which may be given again for each of `values`.
void add_repeated_option(CLI::App& command, const std::string& option, const std::string& type,
                         std::vector<std::string>& values, const std::string& text);

/// What is on record of a run: what a killed dlflow left unrecorded is recorded first.
RunStatus read_run(Session& session, const std::string& run);

/// The same, after asking the cluster if the run is on one. Of a run that has succeeded the secrets
/// are removed.
RunStatus refresh_run(Session& session, const std::string& run, Detail detail = Detail::State);

/// The same for several runs; a cluster is asked once, however many of them are on it. One whose
/// folder is damaged is as it was known before.
std::map<std::string, RunStatus> refresh_runs(Session& session,
                                              const std::vector<std::string>& runs,
                                              Detail detail = Detail::State);

/// The same with what its running jobs report, and who waits for whom.
RunView view_run(Session& session, const std::string& run, Detail detail = Detail::State);

/// `word` as a run's name, see Store::resolve; the newest run if it is empty.
std::string find_run(Session& session, const std::string& word);

/// Prints `json`, indented, and a newline.
void print_json(const Json& json);

}  // namespace dlflow
