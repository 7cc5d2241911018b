#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/local_files.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/cli/commands.h"
#include "engine/cli/session.h"
#include "engine/cli/usage.h"
#include "engine/plan/run_directory.h"
#include "engine/report/dashboard.h"
#include "engine/report/json.h"
#include "engine/report/live_display.h"
#include "engine/report/run_list.h"
#include "engine/report/status_table.h"
#include "engine/report/style.h"
#include "engine/run/failing_nodes.h"

namespace dlflow {
namespace {

Json to_json(const FailingNode& node) {
  return {
      {"cluster", node.cluster},
      {"node", node.node},
      {"failures", node.failures},
      {"last", {{"at", to_rfc3339(node.last.at)}, {"run", node.last.run}, {"job", node.last.job}}}};
}

void show_lost_nodes(Session& session) {
  const std::vector<FailingNode> nodes = failing_nodes(session.store());
  if (session.json) {
    Json list = Json::array();
    for (const FailingNode& node : nodes) list.push_back(to_json(node));
    return print_json(list);
  }
  if (session.quiet) {
    for (const FailingNode& node : nodes) std::printf("%s\n", node.node.c_str());
    return;
  }
  if (nodes.empty()) {
    std::printf("No job was lost on a node.\n");
    return;
  }
  std::vector<std::vector<std::string>> rows = {{"NODE", "CLUSTER", "FAILURES", "LAST"}};
  for (const FailingNode& node : nodes) {
    rows.push_back(
        {node.node, node.cluster, std::to_string(node.failures),
         to_rfc3339(node.last.at).substr(0, 10) + ", " + node.last.job + " of " + node.last.run});
  }
  std::printf(
      "%s`exclude_nodes:` of the profile sets after how many failures a node is excluded.\n"
      "To use it again: dlflow status --forgive NODE\n",
      columns(rows, std::vector(4, Align::Left)).c_str());
}

/// Forgets the jobs that the node lost so far. Throws Error{NotFound} if there are none.
void forgive_node(Session& session, const std::string& name) {
  std::vector<std::string> known;
  bool any = false;
  for (const FailingNode& node : failing_nodes(session.store())) {
    known.push_back(node.node);
    if (node.node == name)
      any |= session.store().forgive_node(node.cluster, name, SystemClock().now());
  }
  if (!any) {
    throw Error(Errc::NotFound, "no job was lost on a node '" + name + "'" +
                                    did_you_mean(name, known) +
                                    "; `dlflow status --nodes` lists them");
  }
  if (!session.quiet) std::printf("%s may be used again.\n", name.c_str());
}

/// The default of `--last`: as many runs as fit on a screen.
constexpr size_t kListed = 20;

/// Runs of this folder first, then the others, each newest first. Only running ones exceed `last`.
std::vector<RunSummary> listed_runs(std::vector<RunSummary> runs, size_t last) {
  std::error_code none;
  const std::filesystem::path here = std::filesystem::current_path(none);
  std::stable_partition(runs.begin(), runs.end(), [&here](const RunSummary& run) {
    return !here.empty() && is_below(run.directory, here);
  });
  size_t place = 0;
  std::erase_if(runs, [&](const RunSummary& run) {
    return place++ >= last && run.state != RunState::Running;
  });
  return runs;
}

struct StatusArguments {
  std::string run;
  StatusChoice choice;
  std::optional<size_t> last;
  bool watch = false;
  bool quick = false;
  bool nodes = false;
  std::string forgiven;
};

/// The newest runs, with unfinished ones refreshed first unless `quick`.
std::string show_all(Session& session, size_t last, const Style& style, bool quick) {
  std::vector<std::string> unfinished;
  for (const RunSummary& run : listed_runs(session.store().runs(), last)) {
    if (!quick && run.state != RunState::Succeeded) unfinished.push_back(run.run);
  }
  std::map<std::string, std::string> now_texts;
  for (const auto& [run, status] : refresh_runs(session, unfinished)) {
    now_texts[run] = now_text(status, style);
  }
  const auto all = session.store().runs();
  for (const RunSummary& run : all) {
    const bool is_open = run.state == RunState::Running || run.state == RunState::Interrupted;
    const auto known = quick && is_open ? session.store().last_event(run.run) : std::nullopt;
    if (known)
      now_texts[run.run] = "last news " + format_age(SystemClock().now() - *known) + " ago";
  }
  if (all.empty()) return "No runs yet. Start one with `dlflow run WORKFLOW`.\n";
  const auto runs = listed_runs(all, last);
  std::string text = run_list(runs, now_texts, SystemClock().now(), style);
  if (const size_t more = all.size() - runs.size(); more > 0) {
    text += "and " + std::to_string(more) + " more: dlflow status --last " +
            std::to_string(all.size()) + "\n";
  }
  return text;
}

/// A run with the chosen jobs. Throws Error{NotFound} for a name that matches none.
RunView look_at(Session& session, const std::string& run, const StatusChoice& choice) {
  RunView view = view_run(session, run, choice.usage ? Detail::Usage : Detail::State);
  for (const std::string& name : choice.names) jobs_called(view.status, name);  // throws
  return view;
}

std::string show_one(Session& session, const std::string& run, const StatusChoice& choice,
                     const Style& style) {
  return status_table(look_at(session, run, choice), SystemClock().now(), style, choice);
}

Json as_json(Session& session, const StatusArguments& arguments) {
  if (!arguments.run.empty()) {
    const StatusChoice& choice = arguments.choice;
    RunStatus status = look_at(session, find_run(session, arguments.run), choice).status;
    std::erase_if(status.jobs, [&choice](const JobRow& job) { return !is_chosen(job, choice); });
    return to_json(status);
  }
  std::vector<std::string> running;
  for (const RunSummary& known : session.store().runs()) {
    if (!arguments.quick && known.state == RunState::Running) running.push_back(known.run);
  }
  refresh_runs(session, running);
  Json list = Json::array();
  const auto all = session.store().runs();
  for (const RunSummary& known : arguments.last ? listed_runs(all, *arguments.last) : all) {
    list.push_back(to_json(known));
  }
  return list;
}

std::chrono::seconds look_interval(Session& session, const RunSummary& run) {
  try {
    return session.verbs(run_profile(run.directory).scheduler)->look_interval();
  } catch (const Error&) {
    return std::chrono::seconds(1);  // its folder is gone or damaged
  }
}

/// The time until the next look at `run`, or at all runs: a busy batch system must not be asked
/// every second. Nothing if none of them is running.
std::optional<std::chrono::seconds> pause(Session& session, const std::string& run) {
  std::optional<std::chrono::seconds> pause;
  for (const RunSummary& known : session.store().runs()) {
    if (known.state != RunState::Running || (!run.empty() && known.run != run)) continue;
    pause = std::max(pause.value_or(std::chrono::seconds(1)), look_interval(session, known));
  }
  return pause;
}

/// A run in the whole terminal, except for the line of the shell's prompt.
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

/// Redraws until nothing is running, and finally shows the output of `status`. With a choice of
/// jobs, shows their table instead of the dashboard.
void watch(Session& session, const std::string& run, const StatusChoice& choice, size_t last) {
  Redraw redraw(1);
  const bool whole = !run.empty() && can_redraw(1) && choice.names.empty() && !choice.usage;
  while (true) {
    const Style style = session.style();  // the terminal may have another size now
    redraw.show(run.empty() ? show_all(session, last, style, false)
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

void show_status(Session& session, const StatusArguments& arguments) {
  const auto& [word, choice, last, watching, quick, nodes, forgiven] = arguments;
  if (word.empty() && (choice.usage || !choice.names.empty())) {
    throw UsageError("--long and --step are about one run: dlflow status RUN");
  }
  if (!word.empty() && last) throw UsageError("--last is about the list of runs, not about one");
  if (!forgiven.empty()) return forgive_node(session, forgiven);
  if (nodes) return show_lost_nodes(session);
  if (session.json) return print_json(as_json(session, arguments));
  if (quick && session.quiet) {
    for (const RunSummary& run : session.store().runs()) std::printf("%s\n", run.run.c_str());
    return;
  }
  const std::string name = word.empty() ? "" : find_run(session, word);
  const size_t listed = last.value_or(kListed);
  if (watching) return watch(session, name, choice, listed);
  const std::string text = name.empty() ? show_all(session, listed, session.style(), quick)
                                        : show_one(session, name, choice, session.style());
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);  // a tracker may be slow
  if (!name.empty()) keep_track(session, name);
}

}  // namespace

void add_status(CLI::App& app, Session& session) {
  CLI::App* command = add_command(app, "status", "Show all runs, or one with its jobs.", R"(
  dlflow status --last 50
  dlflow status --quick            (without asking any cluster)
  dlflow status fashion-mnist-7f3a91c0 --watch
  dlflow status 7f3a --long        (time and memory used)
  dlflow status 7f3a --json
  dlflow status --nodes            (where jobs were lost))");
  const auto arguments = std::make_shared<StatusArguments>();
  CLI::Option* const run = add_run_argument(*command, arguments->run);
  StatusChoice& choice = arguments->choice;
  add_repeated_option(*command, "--step", "STEP", choice.names,
                      "only this step, every element of it, or this job");
  command->add_flag("--long", choice.usage, "show the resources that each job requested and used");
  CLI::Option* const watching = command->add_flag(
      "--watch", arguments->watch,
      "keep showing states and losses until nothing runs (on a cluster every 10 s)");
  CLI::Option* const last = add_value(*command, "--last", "N", arguments->last,
                                      "how many runs to list, those of this folder first (20)")
                                ->check(CLI::PositiveNumber);
  command
      ->add_flag(
          "--quick", arguments->quick,
          "list the runs that are known here, without asking any cluster; with -q their names")
      ->excludes(run)
      ->excludes(watching);
  command->add_flag("--nodes", arguments->nodes, "list the nodes where jobs were lost")
      ->excludes(run)
      ->excludes(watching)
      ->excludes(last);
  add_value(*command, "--forgive", "NODE", arguments->forgiven,
            "forget the jobs that this node has lost so far, since it is repaired");
  add_json_option(*command, session);
  command->callback([arguments, &session] { show_status(session, *arguments); });
}

}  // namespace dlflow
