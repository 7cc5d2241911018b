#include <algorithm>
#include <array>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "base/process.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/loader.h"
#include "runtime/data/names.h"
#include "runtime/nn/layer_costs.h"
#include "runtime/nn/model.h"
#include "runtime/nn/network.h"
#include "runtime/train/shared_split.h"
#include "runtime/train/trainer.h"
#include "steps/environment/step_environment.h"
#include "steps/ranks/launch.h"
#include "steps/ranks/program.h"
#include "steps/scratch/node_data.h"
#include "steps/train/cluster_rules.h"
#include "steps/train/profile.h"

/// dlflow-train: the step kind `train`.
namespace dlflow::steps {
namespace {

using runtime::LayerCost;
using Row = std::array<std::string, 5>;
constexpr size_t kFirstNumber = 3;  // first numeric column of a row

std::string count(int64_t number) { return number == 0 ? "" : format_count(uint64_t(number)); }

Row row_of(const runtime::Layer& layer, const LayerCost& cost) {
  const std::string kind = name(layer.kind);
  return {layer.name, kind, runtime::to_string(layer.shape), count(cost.parameters),
          count(cost.multiply_adds)};
}

/// Aligns words to the left, numbers to the right.
void print(const std::vector<Row>& rows) {
  std::array<int, 5> width{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], int(row[i].size()));
  }
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(size_t(width[i]) - row[i].size(), ' ');
      line += (i == 0 ? "" : "  ") + (i < kFirstNumber ? row[i] + space : space + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::printf("%s\n", escaped(line).c_str());
  }
}

/// The memory that training takes for each sample of a rank's batch.
uint64_t bytes_per_sample(const runtime::Model& model) {
  const runtime::Network network(model, 1, runtime::Network::Mode::Training);
  return network.value_bytes();
}

/// Prints the layers of `model` with shapes, parameters and multiply-adds, and the memory that a
/// rank needs to train it: `dlflow-train --check`.
void print_model(const runtime::Model& model) {
  std::vector<Row> rows = {{"layer", "kind", "result", "parameters", "multiply-adds"}};
  for (const runtime::Layer& layer : model.layers) {
    rows.push_back(row_of(layer, cost_of(model, layer)));
  }
  const LayerCost total = cost_of(model);
  rows.push_back({"total", "", "", count(total.parameters), count(total.multiply_adds)});
  print(rows);
  const std::string weights = format_size(uint64_t(total.parameters) * sizeof(float));
  std::printf(
      "\nmemory of a rank: %s of weights, as much of gradients, and the state\n"
      "of the optimizer (sgd: as much again, adam: twice); %s for each sample\n",
      weights.c_str(), format_size(bytes_per_sample(model)).c_str());
}

constexpr int kExitDiverged = 3;

ProgramHelp program_help() {
  return {
      .name = "dlflow-train",
      .summary = "Train a network on all ranks that it is started with.",
      .commands = {{"dlflow-train with.json", "one rank, results in the current folder"},
                   {"mpirun -np 2 dlflow-train with.json", "two ranks"},
                   {"dlflow-train --ranks 2 with.json", "the same on one machine, without MPI"},
                   {"mpirun -np 2 dlflow-train --meet", "prints how these ranks meet, and ends"},
                   {"dlflow-train --check model.yaml",
                    "prints the layers, shapes and sizes of a model, or its mistakes"},
                   {"mpirun -np 4 dlflow-train --tune [64MiB]",
                    "measures how these ranks add up fastest, up to that size"},
                   {"dlflow-train --profile-steps 20 with.json",
                    "measures that many steps for `dlflow plan`, and trains nothing; writes to "
                    "$DLFLOW_CACHE/measurements, or --measurement FILE"}},
      .settings =
          "with.json has the keys of a `train` step, documented in docs/user/format/train.md:",
      .example =
          R"({"model": "workflows/models/lenet.yaml", "data": "data", "epochs": 4, "lr": 0.05})",
      .variables = variables_of_ranks(
          {{"DLFLOW_CHECKPOINTS", "./checkpoints; training continues from the newest one there"},
           {"DLFLOW_CHECKPOINT_EVERY", R"("1 epochs"; also "200 steps", "1800 seconds")"},
           {"DLFLOW_CHECKPOINT_KEEP", "2"},
           {"DLFLOW_COLLECTIVES",
            "$DLFLOW_CACHE/collectives.txt; --tune writes it, training uses it"},
           {"DLFLOW_STEP", "train; the first part of a measurement's name"},
           {"DLFLOW_CACHE", "none; where DLFLOW_COLLECTIVES and measurements are by default"},
           {"DLFLOW_SCRATCH", "$TMPDIR, else /tmp; where `scratch` has data"},
           {"DLFLOW_SCRATCH_BUDGET",
            "no limit; maximum size of all such copies together, for example 50GiB"}}),
      .exit_status = {
          {"0", "done"},
          {"75",
           "run it again: saved after SIGTERM or SIGUSR1, or a rank was lost after a checkpoint"},
          {"3", "the loss became NaN"},
          {"2", "a mistake in a model (--check)"},
          {"1", "anything else"}}};
}

std::atomic<bool> stop_requested = false;

/// A separate thread receives SIGTERM and SIGUSR1; all later threads inherit the mask. A handler
/// would run on the interrupted thread's stack, and oneDNN's generated code does not keep it
/// usable: a signal during a convolution of lenet corrupted the heap in two of three tries.
void stop_on_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    for (int number = 0; ::sigwait(&signals, &number) == 0;) stop_requested = true;
  }).detach();  // ends with the process
}

/// Whether another start would continue from a checkpoint. Unfinished checkpoints do not count.
bool has_checkpoint() {
  try {
    for (const auto& folder :
         runtime::list_checkpoints(environment_variable("DLFLOW_CHECKPOINTS"))) {
      if (std::filesystem::exists(folder / "manifest.json")) return true;
    }
  } catch (const std::exception&) {
    // An unreadable folder has no checkpoint to continue from.
  }
  return false;
}

void write_results(const StepEnvironment& environment, const runtime::TrainingEnd& end) {
  const std::string folder = "checkpoints/";
  write_outputs(environment,
                {{"checkpoints", folder}, {"model", folder + end.checkpoint.filename().string()}});
  write_summary(environment, end.summary);
}

/// A rank's training, as the environment describes it. `data` must live as long as `job`.
struct Training {
  NodeData data;
  runtime::TrainingJob job;
};

Training open_training(runtime::Communicator& comm, const StepEnvironment& environment) {
  runtime::TrainingJob job;
  job.settings = runtime::parse_train_settings(environment.with);
  job.policy = runtime::parse_checkpoint_policy(environment_variable("DLFLOW_CHECKPOINT_EVERY"),
                                                environment_variable("DLFLOW_CHECKPOINT_KEEP"));
  job.checkpoints = environment_variable("DLFLOW_CHECKPOINTS");
  if (job.checkpoints.empty()) throw Error(Errc::InvalidInput, "$DLFLOW_CHECKPOINTS is not set");
  job.metrics = environment.metrics;
  job.timeline = environment.metrics.parent_path() / "timeline.json";
  job.model = runtime::parse_model(read_file(job.settings.model), job.settings.model);
  NodeData data = job.settings.scratch
                      ? NodeData(comm, job.settings.data, runtime::Split::Train, job.metrics)
                      : NodeData(job.settings.data);
  auto split = runtime::open_shared_split(comm, data.folder(), runtime::Split::Train);
  job.data = std::move(split.dataset);
  job.data_identity = std::move(split.identity);
  job.images = std::move(split.images);
  const std::filesystem::path folder = job.settings.data;
  job.class_names = runtime::read_names(folder / runtime::kClassNames);
  job.origin = runtime::read_names(folder / runtime::kColumnNames);
  job.rules = cluster_rules(comm);
  // With one core, a loader thread would only interrupt the computation, unless the GPU computes.
  const bool core_is_free = job.settings.device == runtime::Device::Cuda;
  job.loader_threads =
      runtime::loader_threads(job.settings.loader_threads, job.data, threads_per_rank());
  const bool has_thread = core_is_free || threads_per_rank() > 1 || job.loader_threads > 1;
  job.prefetch = has_thread ? 2 : 0;
  return {std::move(data), std::move(job)};
}

/// Returns the result of `work`, or kExitDiverged on every rank if the training diverges.
int unless_diverged(const runtime::Communicator& comm, const std::function<int()>& work) {
  try {
    return work();
  } catch (const runtime::Diverged& e) {  // thrown on every rank
    if (comm.rank() == 0) std::fprintf(stderr, "error: %s\n", escaped_lines(e.what()).c_str());
    return kExitDiverged;
  }
}

int train_rank(runtime::Communicator& comm) {
  const StepEnvironment environment = read_step_environment();
  Training training = open_training(comm, environment);
  return unless_diverged(comm, [&] {
    const runtime::TrainingEnd end = runtime::train(comm, std::move(training.job), stop_requested);
    if (!end.finished) return kExitAgain;
    if (comm.rank() == 0) write_results(environment, end);
    return 0;
  });
}

int profile_rank(runtime::Communicator& comm, const ProfileOptions& options) {
  StepEnvironment environment = read_step_environment();
  environment.metrics = "/dev/null";  // leaves the training's metrics alone
  Training training = open_training(comm, environment);
  return unless_diverged(comm, [&] { return profile_training(comm, training.job, options); });
}

int check_model(const char* path) {
  try {
    print_model(runtime::parse_model(read_file(path), path));
    return 0;
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", escaped_lines(e.what()).c_str());
    return 2;
  }
}

int tune_rank(int argc, char** argv, const char* largest) {
  const auto nothing_is_saved = [] { return false; };
  return run_rank(argc, argv, nothing_is_saved, [&](runtime::Communicator& comm) {
    return tune_cluster(comm, parse_size(largest));
  });
}

}  // namespace
}  // namespace dlflow::steps

int main(int argc, char** argv) {
  using namespace dlflow::steps;
  if (argc == 3 && std::strcmp(argv[1], "--check") == 0) return check_model(argv[2]);
  if ((argc == 2 || argc == 3) && std::strcmp(argv[1], "--tune") == 0) {
    return tune_rank(argc, argv, argc == 3 ? argv[2] : "64MiB");
  }
  RankProgram program = {.help = program_help(),
                         .task = "train",
                         .work = train_rank,
                         .can_resume = has_checkpoint,
                         .further_defaults = {{"DLFLOW_CHECKPOINTS", "checkpoints"}},
                         .before_ranks = stop_on_signals};
  return run_step([&] {
    if (const auto options = take_profile_options(argc, argv)) {
      program.work = [=](auto& comm) { return profile_rank(comm, *options); };
      program.can_resume = [] { return false; };
      program.before_ranks = [] {};  // signals end the process
    }
    return run_program(program, argc, argv);
  });
}
