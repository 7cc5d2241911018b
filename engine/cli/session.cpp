#include "engine/cli/session.h"

#include <cstdio>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"
#include "engine/batch/batch.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/secrets.h"
#include "engine/report/again_text.h"
#include "engine/report/live_display.h"
#include "engine/report/usage.h"
#include "engine/run/notify/notify.h"
#include "engine/run/restore.h"

namespace dlflow {

Store& Session::store() {
  if (!store_) store_ = std::make_unique<Store>(dlflow_home());
  return *store_;
}

namespace {

/// Fills usage that accounting lacks from the records of the jobs' supervisors.
void add_recorded_usage(Session& session, RunStatus& status) {
  for (JobRow& job : status.jobs) {
    if (job.usage || !is_final(job.state) || job.attempt == 0) continue;
    job.usage = recorded_usage(session.store().events(status.run, job.job));
  }
}

RunStatus damaged(Session& session, const std::string& run, const Error& error) {
  RunStatus status = session.store().status(run);
  status.problem = error.what();
  status.damaged = true;
  return status;
}

/// Refreshes runs of one scheduler. A damaged run does not hide the others.
std::vector<RunStatus> refresh_together(Session& session, const std::string& scheduler,
                                        const std::vector<std::string>& runs, Detail detail) {
  std::vector<std::filesystem::path> directories;
  for (const std::string& run : runs) directories.push_back(session.store().directory(run));
  try {
    return session.verbs(scheduler)->refresh(directories, detail);
  } catch (const Error& error) {
    if (error.retryable()) throw;  // the store is busy
    if (runs.size() == 1) return {damaged(session, runs.front(), error)};
  }
  std::vector<RunStatus> statuses;  // one is damaged: refresh each alone
  for (const std::string& run : runs) {
    statuses.push_back(refresh_together(session, scheduler, {run}, detail).front());
  }
  return statuses;
}

/// The display of `run` and `resubmit`: on a terminal a live table, elsewhere a line per change;
/// with --json only the last line goes to standard output; with --quiet only the end is shown.
std::unique_ptr<Observer> make_run_display(const Session& session) {
  const int descriptor = session.json ? 2 : 1;  // standard output gets only the last line
  const Style style = detect_style(descriptor, session.color);
  if (can_redraw(descriptor) && !session.quiet && !session.verbose) {
    return std::make_unique<LiveDisplay>(descriptor, style);
  }
  return std::make_unique<LineDisplay>(descriptor, style, !session.quiet);
}

void add_plan_to(RunView& view, const Plan& plan) {
  constexpr size_t kFewJobs = 2000;  // up to here, each job shows which steps it waits for
  if (plan.jobs.size() <= kFewJobs) {
    for (const Step& step : plan.workflow.steps) view.needs[step.name] = step.needs;
  }
  add_plan(view.status, plan);
  for (uint32_t i = 0; i < plan.jobs.size() && i < view.status.jobs.size(); ++i) {
    const PlannedJob& job = plan.jobs[i];
    JobRow& row = view.status.jobs[i];
    if (!row.limit || row.job != job.name) continue;
    row.limit =
        own_limit(*row.limit, *job.resources, job.place ? plan.places[*job.place] : plan.profile);
  }
}

}  // namespace

std::unique_ptr<Verbs> Session::verbs(const std::string& scheduler) {
  VerbServices services{store(), clock_, [this] { return make_run_display(*this); }};
  if (!quiet && !json) {
    services.tell = [](const std::string& line) {
      std::printf("  %s\n", line.c_str());
      std::fflush(stdout);
    };
  }
  return verbs_of(scheduler, services);
}

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& sentence,
                      const std::string& examples) {
  CLI::App* command = app.add_subcommand(name, sentence);
  command->footer("Examples:" + examples);
  return command;
}

void add_json_option(CLI::App& command, Session& session) {
  command.add_flag("--json", session.json, "print JSON (docs/user/json.md)");
}

CLI::Option* add_run_argument(CLI::App& command, std::string& run) {
  return command.add_option("run", run, "a run's name, or the beginning of it or of its number")
      ->type_name("RUN");
}

void add_output_option(CLI::App& command, std::string& file, const std::string& text) {
  command.add_option("-o,--output", file, text)->type_name("FILE");
}

void add_repeated_option(CLI::App& command, const std::string& option, const std::string& type,
                         std::vector<std::string>& values, const std::string& text) {
  command.add_option(option, values, text)->type_name(type)->take_all()->allow_extra_args(false);
}

RunStatus refresh_run(Session& session, const std::string& run, Detail detail) {
  return std::move(refresh_runs(session, {run}, detail).at(run));
}

std::map<std::string, RunStatus> refresh_runs(Session& session,
                                              const std::vector<std::string>& runs, Detail detail) {
  std::map<std::string, RunStatus> statuses;
  std::map<std::string, std::vector<std::string>> together;  // by scheduler
  for (const std::string& run : runs) {
    const std::filesystem::path directory = session.store().directory(run);
    if (!std::filesystem::exists(directory)) {
      statuses.emplace(run, read_run(session, run));
      continue;
    }
    try {
      together[run_profile(directory).scheduler].push_back(run);
    } catch (const Error& error) {
      if (error.retryable()) throw;
      statuses.emplace(run, damaged(session, run, error));
    }
  }
  for (const auto& [scheduler, theirs] : together) {
    for (RunStatus& status : refresh_together(session, scheduler, theirs, detail)) {
      std::string run = status.run;
      statuses.emplace(std::move(run), std::move(status));
    }
  }
  for (const auto& [run, status] : statuses) {
    if (status.state != RunState::Succeeded || waits_to_be_told(status.directory)) continue;
    remove_secrets(status.directory);
  }
  if (detail == Detail::Usage) {
    for (auto& [run, status] : statuses) add_recorded_usage(session, status);
  }
  return statuses;
}

RunStatus read_run(Session& session, const std::string& run) {
  const std::filesystem::path directory = session.store().directory(run);
  if (std::filesystem::exists(directory)) sync_idle_run(session.store(), directory);
  RunStatus status = session.store().status(run);
  if (status.state == RunState::Running && !std::filesystem::exists(directory)) {
    status.problem = directory.string() +
                     " is gone, with the records of its jobs; `dlflow cancel " + run +
                     "` removes the remaining ones from the queue";
  }
  return status;
}

RunView view_run(Session& session, const std::string& run, Detail detail) {
  constexpr size_t kPlannedAtOnce = 20'000;  // larger plans are too slow to read for a status
  RunView view;
  view.status = refresh_run(session, run, detail);
  view.progress = read_progress(view.status);
  for (const JobName& job : session.store().repeated_jobs(run)) {
    view.spans[job] = spans_of(session.store().events(run, job));
  }
  const std::filesystem::path directory = view.status.directory;
  if (view.status.problem.empty() && !std::filesystem::exists(directory)) {
    view.status.problem = directory.string() + " is gone, with its results and logs; `dlflow rm " +
                          run + "` removes the run from this list";
    view.status.damaged = true;
  }
  const bool is_read = view.status.jobs.size() <= kPlannedAtOnce || detail == Detail::Usage;
  if (!is_read || view.status.damaged) return view;
  try {
    add_plan_to(view, load_run(directory));
  } catch (const Error& error) {
    if (error.retryable()) throw;
    view.status.problem = error.what();  // its jobs are still shown
  }
  return view;
}

ReportedRun read_reported_run(Session& session, const std::string& run, Detail detail) {
  ReportedRun all;
  all.status = refresh_run(session, run, detail);
  all.plan = load_run(all.status.directory);
  for (size_t job = 0; job < all.plan.jobs.size() && job < all.status.jobs.size(); ++job) {
    all.status.jobs[job].asked = *all.plan.jobs[job].resources;
  }
  for (const JobRow& job : all.status.jobs) {
    all.events[job.job] = session.store().events(run, job.job);
  }
  return all;
}

std::vector<JobRow> jobs_called(const RunStatus& status, const std::string& word) {
  std::vector<JobRow> jobs;
  std::set<std::string> names;
  for (const JobRow& job : status.jobs) {
    if (job.job.is_meant_by(word)) jobs.push_back(job);
    names.insert({job.step, job.job});
  }
  if (!jobs.empty()) return jobs;
  throw Error(Errc::NotFound,
              status.run + " has no step or job '" + word + "'" +
                  did_you_mean_or_list(word, std::vector(names.begin(), names.end())));
}

std::string find_run(Session& session, const std::string& word) {
  if (!word.empty()) return session.store().resolve(word);
  const auto runs = session.store().runs();
  if (runs.empty()) {
    throw Error(Errc::NotFound, "there is no run yet; start one with `dlflow run WORKFLOW`");
  }
  return runs.front().run;
}

Command step_program(const std::string& name, const std::filesystem::path& folder,
                     const std::vector<std::string>& arguments) {
  const std::filesystem::path program = this_program().parent_path() / name;
  if (!std::filesystem::exists(program)) {
    throw Error(Errc::NotFound, program.string() + " is not there; install it beside dlflow");
  }
  Command command;
  command.argv = {program.string()};
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  command.environment = current_environment();
  std::erase_if(command.environment, [](const auto& one) { return one.starts_with("DLFLOW_"); });
  command.directory = folder;
  return command;
}

void print_json(const Json& json) { std::printf("%s\n", escaped_lines(json.dump(2)).c_str()); }

}  // namespace dlflow
