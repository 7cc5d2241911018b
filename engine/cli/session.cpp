#include "engine/cli/session.h"

#include <cstdio>

#include "base/error.h"
#include "engine/cli/chain.h"
#include "engine/plan/run_directory.h"

namespace dlflow {

Store& Session::store() {
  if (!store_) store_ = std::make_unique<Store>(dlflow_home());
  return *store_;
}

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& sentence,
                      const std::string& examples) {
  CLI::App* command = app.add_subcommand(name, sentence);
  command->footer("Examples:\n" + examples);
  return command;
}

void add_json_option(CLI::App& command, Session& session) {
  command.add_flag("--json", session.json, "print JSON (docs/json.md)");
}

RunStatus refresh_run(Session& session, const std::string& run) {
  const std::filesystem::path directory = session.store().directory(run);
  const bool on_slurm = std::filesystem::exists(directory) && runs_on_slurm(run_profile(directory));
  return on_slurm ? refresh_chain_status(session, directory) : read_run(session, run);
}

RunStatus read_run(Session& session, const std::string& run) {
  const std::filesystem::path directory = session.store().directory(run);
  if (std::filesystem::exists(directory)) {
    // An engine at work records everything itself, and in the right order.
    if (const auto lock = RunLock::try_acquire(directory)) session.store().sync_run(directory);
  }
  RunStatus status = session.store().status(run);
  if (status.state == RunState::Running && !std::filesystem::exists(directory)) {
    status.problem = directory.string() +
                     " is gone, and with it what its jobs record; `dlflow cancel " + run +
                     "` takes from SLURM what it still has of them";
  }
  return status;
}

RunView view_run(Session& session, const std::string& run) {
  constexpr size_t kFewJobs = 2000;  // who waits for whom is shown job by job only up to here
  RunView view;
  view.status = refresh_run(session, run);
  view.progress = read_progress(view.status);
  const std::filesystem::path directory = view.status.directory;
  if (view.status.jobs.size() <= kFewJobs && std::filesystem::exists(directory)) {
    for (const Step& step : load_run(directory).workflow.steps) view.needs[step.name] = step.needs;
  }
  return view;
}

std::string find_run(Session& session, const std::string& word) {
  if (!word.empty()) return session.store().resolve(word);
  const auto runs = session.store().runs();
  if (runs.empty()) {
    throw Error(Errc::NotFound, "there is no run yet; start one with `dlflow run WORKFLOW`");
  }
  return runs.front().run;
}

void print_json(const Json& json) { std::printf("%s\n", json.dump(2).c_str()); }

}  // namespace dlflow
