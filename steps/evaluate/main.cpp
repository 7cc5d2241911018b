#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "runtime/train/agreement.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/node_cache.h"
#include "runtime/train/settings.h"
#include "runtime/train/shared_split.h"
#include "runtime/train/trained_network.h"
#include "steps/environment/program_help.h"
#include "steps/environment/step_environment.h"
#include "steps/ranks/guard.h"
#include "steps/ranks/launch.h"
#include "steps/scratch/node_data.h"

/// dlflow-evaluate: the step kind `evaluate`.
namespace dlflow::steps {
namespace {

using Clock = std::chrono::steady_clock;

ProgramHelp program_help() {
  return {
      .name = "dlflow-evaluate",
      .summary = "Measure a trained network on data that it has not seen.",
      .commands = {{"dlflow-evaluate with.json", "one rank, results in the current folder"},
                   {"mpirun -np 2 dlflow-evaluate with.json",
                    "the same results, in half the time"}},
      .settings =
          "with.json has the keys of an `evaluate` step, documented in "
          "docs/user/workflow-format.md. The checkpoint\nis a folder and carries the model, "
          "the data is a folder with the test split:",
      .example = R"({"checkpoint": "checkpoints/step-001720", "data": "data", "batch": 256})",
      .variables = {{"DLFLOW_WITH", "the settings, if there is no with.json among the arguments"},
                    {"DLFLOW_OUTPUTS", "./outputs"},
                    {"DLFLOW_METRICS", "./metrics.jsonl"},
                    {"DLFLOW_SUMMARY", "./metrics.json"},
                    {"DLFLOW_RANKS", "as many as are started; with others it refuses to begin"},
                    {"DLFLOW_CPUS_PER_RANK", "1"},
                    {"DLFLOW_SCRATCH", "$TMPDIR, else /tmp; where `scratch` and `cache` have data"},
                    {"DLFLOW_SCRATCH_BUDGET",
                     "no limit; of all such copies together, for example 50GiB"},
                    {"DLFLOW_STALL_TIMEOUT",
                     "60; seconds for which a rank that others wait for may do nothing"}},
      .exit_status = {{"0", "done; accuracy and loss are printed"}, {"1", "it could not be done"}}};
}

/// What `dlflow run` would have set.
void set_defaults(const char* with) {
  ::setenv("DLFLOW_WITH", with, 1);
  ::setenv("DLFLOW_OUTPUTS", "outputs", 0);
  ::setenv("DLFLOW_METRICS", "metrics.jsonl", 0);
  ::setenv("DLFLOW_SUMMARY", "metrics.json", 0);
}

/// Twice a second, how far it is.
class ProgressLog {
 public:
  explicit ProgressLog(const std::filesystem::path& file) : file_(file) {}

  void report(size_t done, size_t total) {
    const auto now = Clock::now();
    if (now - last_ < std::chrono::milliseconds(500)) return;
    last_ = now;
    const double seconds = std::chrono::duration<double>(now - started_).count();
    file_.append(Json{{"progress", double(done) / double(total)},
                      {"images_per_s", std::round(double(done) / seconds)},
                      {"eta_s", std::round(seconds / double(done) * double(total - done))}}
                     .dump());
  }

 private:
  AppendFile file_;
  Clock::time_point started_ = Clock::now();
  Clock::time_point last_ = started_;
};

/// A cache for one pass over all of `cached`; null if there is nothing to cache.
std::unique_ptr<runtime::NodeCache> make_cache(runtime::Communicator& comm,
                                               const std::optional<runtime::CachedData>& cached,
                                               size_t batch) {
  if (!cached) return nullptr;
  runtime::VisitOrder order;
  order.validation_chunks = runtime::SampleChunks(*cached->data, cached->data->dataset());
  order.validation_batch = batch;
  auto cache =
      std::make_unique<runtime::NodeCache>(comm, *cached, std::move(order), runtime::IndexRange{});
  cache->start(0, 0);
  return cache;
}

int evaluate_rank(runtime::Communicator& comm) {
  const StepEnvironment environment = read_step_environment();
  const auto settings = runtime::parse_evaluate_settings(environment.with);
  runtime::TrainedNetwork network =
      runtime::load_trained_network(comm, settings.checkpoint, settings.batch);
  const NodeData place =
      settings.scratch ? NodeData(comm, settings.data, runtime::Split::Test, environment.metrics)
                       : NodeData(settings.data);
  std::optional<runtime::CachedData> cached;
  runtime::SharedSplit split;
  if (settings.cache) {
    cached = cached_data(settings.data, runtime::Split::Test, *settings.cache);
    split = {cached->data->dataset(), cached->data->content_hash(), nullptr};
  } else {
    split = runtime::open_shared_split(comm, place.folder(), runtime::Split::Test);
  }
  runtime::require_agreement(comm, {{"the test data", split.identity}});
  runtime::Dataset& data = split.dataset;
  runtime::require_fitting(network.model, data, "the test data");

  const auto cache = make_cache(comm, cached, settings.batch);
  std::optional<ProgressLog> log;
  if (comm.rank() == 0) log.emplace(environment.metrics);
  const auto started = Clock::now();
  const runtime::Evaluation result = runtime::evaluate(
      comm, network.model, runtime::inference_with(network.networks, network.weights.floats()),
      data, network.normalization, settings.batch,
      [&](size_t done, size_t total) {
        if (log) log->report(done, total);
      },
      cache ? &cache->validation() : split.images.get());
  const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
  if (comm.rank() != 0) return 0;
  if (result.rmse) std::printf("rmse %.4f, ", *result.rmse);
  if (result.mae) std::printf("mae %.4f, ", *result.mae);
  if (!result.rmse) std::printf("accuracy %.4f, ", result.accuracy);
  std::printf("loss %.4f, %zu samples\n", result.loss, data.size());
  write_outputs(environment, Json::object());
  Json summary = {{"samples", data.size()},
                  {"images_per_s", std::round(double(data.size()) / seconds)}};
  for (const auto& [name, value] : result.metrics()) summary[name] = value;
  if (cache) cache->describe(summary);
  write_summary(environment, summary);
  return 0;
}

}  // namespace
}  // namespace dlflow::steps

int main(int argc, char** argv) {
  using namespace dlflow::steps;
  if (const auto help = asked_help(program_help(), argc, argv)) {
    std::fputs(help->c_str(), stdout);
    return 0;
  }
  if (argc > 2 || (argc == 2 && argv[1][0] == '-') ||
      (argc == 1 && environment_variable("DLFLOW_WITH").empty())) {
    std::fputs("error: what to evaluate? dlflow-evaluate with.json; see dlflow-evaluate --help\n",
               stderr);
    return 1;
  }
  if (argc == 2) set_defaults(argv[1]);
  const auto nothing_is_saved = [] { return false; };
  const GuardedRank guarded = guard_rank(nothing_is_saved);
  return run_rank(argc, argv, nothing_is_saved, evaluate_rank, guarded);
}
