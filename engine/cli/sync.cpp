#include <chrono>
#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "engine/cli/commands.h"
#include "engine/track/track.h"

namespace dlflow {
namespace {

/// The names of trackers, as in a workflow.
std::vector<std::string> names(const Trackers& trackers) {
  std::vector<std::string> names;
  if (trackers.tensorboard) names.emplace_back("tensorboard");
  if (!trackers.mlflow.empty()) names.emplace_back("mlflow");
  if (!trackers.openmetrics.empty()) names.emplace_back("openmetrics");
  for (const auto& [client, place] : trackers.clients) names.push_back(client);
  return names;
}

/// Sends one run to its trackers, and prints where to look.
void sync(Session& session, const std::string& run, Json& list) {
  const ReportedRun recorded = read_reported_run(session, run, Detail::State);
  const Trackers& trackers = recorded.plan.workflow.track;
  if (trackers.empty()) {
    throw Error(
        Errc::InvalidInput,
        "the workflow of " + run + " has no `track:`; for example `track: {tensorboard: true}`");
  }
  track(recorded, SystemClock().now());
  const std::string look = hand_to_clients(recorded);
  list.push_back(
      {{"run", run}, {"trackers", names(trackers)}, {"directory", recorded.status.directory}});
  if (session.json || session.quiet) return;
  const std::string& folder = recorded.status.directory;
  if (trackers.tensorboard) std::printf("tensorboard --logdir %s/tensorboard\n", folder.c_str());
  if (!trackers.mlflow.empty()) std::printf("%s\n", trackers.mlflow.c_str());
  if (!trackers.openmetrics.empty()) std::printf("%s\n", trackers.openmetrics.c_str());
  std::fputs(look.c_str(), stdout);
}

}  // namespace

void keep_track(Session& session, const std::string& run) {
  // The verb was not called for the trackers, so that slow servers must not delay it.
  constexpr std::chrono::seconds kPatience(10);
  // Most workflows have no trackers, and the text is faster to read than a plan of 10,000 jobs.
  const auto file = session.store().directory(run) / "workflow.yaml";
  const auto text = read_file_if_exists(file);
  if (!text || text->find("track") == text->npos) return;
  try {
    track(read_reported_run(session, run, Detail::State), SystemClock().now(), kPatience);
  } catch (const Error& error) {
    std::fprintf(stderr, "warning: %s\n", escaped_lines(error.what()).c_str());
  }
}

void add_sync(CLI::App& app, Session& session) {
  CLI::App* command = add_command(
      app, "sync",
      "Send the metrics of runs to trackers: TensorBoard, MLflow, W&B, Aim, Comet, OpenMetrics.",
      R"(
  dlflow sync                      (the newest run)
  dlflow sync sweep-7f3a91c0 sweep-91c0e5d2)");
  const auto runs = std::make_shared<std::vector<std::string>>();
  add_value(*command, "runs", "RUN", *runs,
            "runs whose workflow has `track:`; the newest if left out");
  add_json_option(*command, session);
  command->callback([runs, &session] {
    Json list = Json::array();
    if (runs->empty()) runs->push_back("");
    for (const std::string& run : *runs) sync(session, find_run(session, run), list);
    if (session.json) print_json(list);
  });
}

}  // namespace dlflow
