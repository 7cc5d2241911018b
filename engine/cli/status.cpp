#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <thread>

#include "engine/cli/chain.h"
#include "engine/cli/commands.h"
#include "engine/plan/run_directory.h"
#include "engine/report/json.h"
#include "engine/report/redraw.h"
#include "engine/report/run_list.h"

namespace dlflow {
namespace {

/// All runs, what is running first brought up to date.
std::string show_all(Session& session, const Style& style) {
  std::map<std::string, std::string> now_texts;
  for (const RunSummary& run : session.store().runs()) {
    if (run.state == RunState::Succeeded) continue;
    now_texts[run.run] = now_text(refresh_run(session, run.run), style);
  }
  const auto runs = session.store().runs();
  if (runs.empty()) return "No runs yet. Start one with `dlflow run WORKFLOW`.\n";
  return run_list(runs, now_texts, SystemClock().now(), style);
}

std::string show_one(Session& session, const std::string& run, const Style& style) {
  return status_table(view_run(session, run), SystemClock().now(), style);
}

Json as_json(Session& session, const std::string& run) {
  if (!run.empty()) return to_json(refresh_run(session, find_run(session, run)));
  Json list = Json::array();
  for (const RunSummary& known : session.store().runs()) {
    if (known.state == RunState::Running) refresh_run(session, known.run);
  }
  for (const RunSummary& known : session.store().runs()) list.push_back(to_json(known));
  return list;
}

/// Until the next look at `run`, or at all: a busy SLURM is not to be asked every second. Nothing
/// if none of them runs any more.
std::optional<std::chrono::seconds> pause(Session& session, const std::string& run) {
  constexpr std::chrono::seconds kLocal(1);
  constexpr std::chrono::seconds kCluster(10);
  std::optional<std::chrono::seconds> pause;
  for (const RunSummary& known : session.store().runs()) {
    if (known.state != RunState::Running || (!run.empty() && known.run != run)) continue;
    const bool here = std::filesystem::exists(known.directory);
    const bool cluster = here && runs_on_slurm(run_profile(known.directory));
    pause = std::max(pause.value_or(kLocal), cluster ? kCluster : kLocal);
  }
  return pause;
}

/// Draws again and again until nothing runs any more.
void watch(Session& session, const std::string& run) {
  const Style style = session.style();
  Redraw redraw(1);
  while (true) {
    redraw.show(run.empty() ? show_all(session, style) : show_one(session, run, style));
    const auto wait = pause(session, run);
    if (!wait) return;
    std::this_thread::sleep_for(*wait);
  }
}

}  // namespace

void add_status(CLI::App& app, Session& session) {
  CLI::App* command = add_command(app, "status", "Show all runs, or one with its jobs.",
                                  "  dlflow status\n"
                                  "  dlflow status fashion-mnist-7f3a --watch\n"
                                  "  dlflow status 7f3a --json");
  const auto run = std::make_shared<std::string>();
  const auto watching = std::make_shared<bool>(false);
  command->add_option("run", *run, "a run's name, or enough of it")->type_name("RUN");
  command->add_flag("--watch", *watching, "draw it again until nothing runs (on SLURM every 10 s)");
  add_json_option(*command, session);
  command->callback([=, &session] {
    if (session.json) return print_json(as_json(session, *run));
    const std::string name = run->empty() ? "" : find_run(session, *run);
    if (*watching) return watch(session, name);
    const std::string text = name.empty() ? show_all(session, session.style())
                                          : show_one(session, name, session.style());
    std::fputs(text.c_str(), stdout);
  });
}

}  // namespace dlflow
