#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "engine/cli/commands.h"
#include "engine/cli/tracking.h"
#include "engine/plan/run_directory.h"
#include "engine/report/dashboard.h"
#include "engine/report/json.h"
#include "engine/report/redraw.h"
#include "engine/report/run_list.h"
#include "engine/report/status_table.h"

namespace dlflow {
namespace {

/// Throws Error{NotFound} with a suggestion for a name that means no job of the run.
void check_names_exist(const RunStatus& status, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const StatusChoice only{.names = {name}};
    std::vector<std::string> steps;
    bool known = false;
    for (const JobRow& job : status.jobs) {
      known = known || is_chosen(job, only);
      if (steps.empty() || steps.back() != job.step) steps.push_back(job.step);
    }
    if (known) continue;
    throw Error(Errc::NotFound, "run " + status.run + " has no step or job '" + name + "'" +
                                    did_you_mean(name, steps));
  }
}

/// All runs, what is running first brought up to date.
std::string show_all(Session& session, const Style& style) {
  std::vector<std::string> unfinished;
  for (const RunSummary& run : session.store().runs()) {
    if (run.state != RunState::Succeeded) unfinished.push_back(run.run);
  }
  std::map<std::string, std::string> now_texts;
  for (const auto& [run, status] : refresh_runs(session, unfinished)) {
    now_texts[run] = now_text(status, style);
  }
  const auto runs = session.store().runs();
  if (runs.empty()) return "No runs yet. Start one with `dlflow run WORKFLOW`.\n";
  return run_list(runs, now_texts, SystemClock().now(), style);
}

/// A run with what is chosen of it. Throws Error{NotFound} for a name that means no job of it.
RunView look_at(Session& session, const std::string& run, const StatusChoice& choice) {
  RunView view = view_run(session, run, choice.usage ? Detail::Usage : Detail::State);
  check_names_exist(view.status, choice.names);
  return view;
}

std::string show_one(Session& session, const std::string& run, const StatusChoice& choice,
                     const Style& style) {
  return status_table(look_at(session, run, choice), SystemClock().now(), style, choice);
}

Json as_json(Session& session, const std::string& run, const StatusChoice& choice) {
  if (!run.empty()) {
    RunStatus status = look_at(session, find_run(session, run), choice).status;
    std::erase_if(status.jobs, [&choice](const JobRow& job) { return !is_chosen(job, choice); });
    return to_json(status);
  }
  std::vector<std::string> running;
  for (const RunSummary& known : session.store().runs()) {
    if (known.state == RunState::Running) running.push_back(known.run);
  }
  refresh_runs(session, running);
  Json list = Json::array();
  for (const RunSummary& known : session.store().runs()) list.push_back(to_json(known));
  return list;
}

std::chrono::seconds look_interval(Session& session, const RunSummary& run) {
  try {
    return session.verbs(run_profile(run.directory).scheduler)->look_interval();
  } catch (const Error&) {
    return std::chrono::seconds(1);  // its folder is gone or damaged
  }
}

/// Until the next look at `run`, or at all: a busy SLURM is not to be asked every second. Nothing
/// if none of them runs any more.
std::optional<std::chrono::seconds> pause(Session& session, const std::string& run) {
  std::optional<std::chrono::seconds> pause;
  for (const RunSummary& known : session.store().runs()) {
    if (known.state != RunState::Running || (!run.empty() && known.run != run)) continue;
    pause = std::max(pause.value_or(std::chrono::seconds(1)), look_interval(session, known));
  }
  return pause;
}

/// A run on the whole terminal, but for the line on which the shell goes on.
std::string show_dashboard(Session& session, const std::string& run, size_t rows) {
  const size_t room = std::max<size_t>(rows, 10) - 1;
  const RunView view = view_run(session, run);
  const Losses losses = read_losses(view.status, room / 3);
  std::string text;
  for (const std::string& line :
       dashboard(view, losses, SystemClock().now(), room, session.style())) {
    text += line + "\n";
  }
  return text;
}

/// Draws again and again until nothing runs any more; what stays on the screen then is what
/// `status` says. A choice asks for its table, not for the dashboard.
void watch(Session& session, const std::string& run, const StatusChoice& choice) {
  Redraw redraw(1);
  const bool whole = !run.empty() && is_terminal(1) && choice.names.empty() && !choice.usage;
  while (true) {
    const Style style = session.style();  // the terminal may have another size now
    redraw.show(run.empty() ? show_all(session, style)
                : whole     ? show_dashboard(session, run, redraw.rows())
                            : show_one(session, run, choice, style));
    const auto wait = pause(session, run);
    if (!wait) {
      if (whole) redraw.show(show_one(session, run, choice, style));
      return;
    }
    std::this_thread::sleep_for(*wait);
  }
}

}  // namespace

void add_status(CLI::App& app, Session& session) {
  CLI::App* command = add_command(app, "status", "Show all runs, or one with its jobs.",
                                  "  dlflow status\n"
                                  "  dlflow status fashion-mnist-7f3a91c0 --watch\n"
                                  "  dlflow status 7f3a --long        (time and memory used)\n"
                                  "  dlflow status 7f3a --json");
  const auto run = std::make_shared<std::string>();
  const auto choice = std::make_shared<StatusChoice>();
  const auto watching = std::make_shared<bool>(false);
  command->add_option("run", *run, "a run's name, or enough of it")->type_name("RUN");
  command->add_option("--step", choice->names, "only this step, every element of it, or this job")
      ->type_name("STEP")
      ->take_all()
      ->allow_extra_args(false);
  command->add_flag("--long", choice->usage, "show the resources that each job requested and used");
  command->add_flag("--watch", *watching,
                    "until nothing runs, with losses as it goes (on SLURM every 10 s)");
  add_json_option(*command, session);
  command->callback([=, &session] {
    if (run->empty() && (choice->usage || !choice->names.empty())) {
      throw Error(Errc::InvalidInput, "--long and --step are about one run: dlflow status RUN");
    }
    if (session.json) return print_json(as_json(session, *run, *choice));
    const std::string name = run->empty() ? "" : find_run(session, *run);
    if (*watching) return watch(session, name, *choice);
    if (!name.empty()) keep_track(session, name);
    const std::string text = name.empty() ? show_all(session, session.style())
                                          : show_one(session, name, *choice, session.style());
    std::fputs(text.c_str(), stdout);
  });
}

}  // namespace dlflow
