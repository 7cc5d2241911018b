#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include "base/error.h"
#include "base/shared_bytes.h"
#include "runtime/data/file_writer.h"
#include "runtime/data/loader.h"
#include "runtime/settings/parts.h"
#include "runtime/settings/with_reader.h"
#include "runtime/train/agreement.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/prediction.h"
#include "runtime/train/rate.h"
#include "runtime/train/shared_split.h"
#include "steps/environment/step_environment.h"
#include "steps/predict/prediction_file.h"
#include "steps/ranks/launch.h"
#include "steps/ranks/program.h"

/// dlflow-predict: the step kind `predict`.
namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using runtime::IndexRange;

ProgramHelp program_help() {
  return {
      .name = "dlflow-predict",
      .summary = "Write the output of a trained network for each sample of a data set.",
      .commands = {{"dlflow-predict with.json", "one rank, results in the current folder"},
                   {"mpirun -np 2 dlflow-predict with.json", "the same file, in half the time"}},
      .settings =
          "with.json has the keys of a `predict` step, documented in docs/user/format/kinds.md. "
          "The checkpoint\nis a folder and carries the model:",
      .example = R"({"checkpoint": "checkpoints/step-001720", "data": "data", "format": "csv"})",
      .variables = variables_of_ranks(),
      .exit_status = {{"0", "done"}, {"1", "it failed"}}};
}

/// The step's `with:`.
struct Request {
  std::string checkpoint, data;
  runtime::Split split = runtime::Split::Test;
  PredictionFormat format = PredictionFormat::Csv;
  std::optional<size_t> loader_threads;
  size_t batch = 256;
  size_t shard = 0, shards = 1;
};

runtime::Split read_split(const Json* json) {
  if (json == nullptr || *json == "test") return runtime::Split::Test;
  if (*json == "train") return runtime::Split::Train;
  runtime::WithReader::fail("split", "'test' or 'train'");
}

PredictionFormat read_format(const Json* json) {
  if (json == nullptr || *json == "csv") return PredictionFormat::Csv;
  if (*json == "npy") return PredictionFormat::Npy;
  runtime::WithReader::fail("format", "'csv' or 'npy'");
}

Request parse_request(const Json& with) {
  runtime::WithReader reader(with);
  Request request;
  request.checkpoint = reader.text("checkpoint");
  request.data = reader.text("data");
  request.split = read_split(reader.find("split"));
  request.format = read_format(reader.find("format"));
  request.loader_threads = runtime::read_loader_threads(reader);
  request.batch = reader.count("batch", 1, request.batch);
  request.shard = reader.count("shard", 0, request.shard);
  request.shards = reader.count("shards", 1, request.shards);
  reader.finish();
  if (request.shard >= request.shards) {
    runtime::WithReader::refuse("shard", "is " + std::to_string(request.shard) + ", but the " +
                                             std::to_string(request.shards) +
                                             " shards are numbered from 0");
  }
  return request;
}

fs::path part_file(const fs::path& file, int rank) {
  return file.string() + ".rank-" + std::to_string(rank);
}

/// Joins the rows of all ranks into one file.
void join_parts(const fs::path& path, const PredictionFile& format, size_t samples, int num_ranks) {
  std::vector<SharedBytes> parts;
  std::vector<std::string_view> rows;
  for (int rank = 0; rank < num_ranks; ++rank) {
    rows.push_back(parts.emplace_back(map_file(part_file(path, rank))).view);
  }
  runtime::FileWriter file(path);
  format.write(file, samples, rows);
  file.publish();
  for (int rank = 0; rank < num_ranks; ++rank) fs::remove(part_file(path, rank));
}

/// Writes this rank's rows of the batches in `shard`.
void write_part(runtime::Communicator& comm, runtime::TrainedNetwork& network,
                runtime::SharedSplit& split, const Request& request, IndexRange shard,
                const PredictionFile& format, const fs::path& path) {
  runtime::FileWriter rows(path);
  runtime::predict(
      comm, network,
      {split.dataset, network.normalization, request.batch, split.images.get(),
       runtime::loader_threads(request.loader_threads, split.dataset, threads_per_rank())},
      runtime::part_of(shard, comm.rank(), comm.size()),
      [&](const runtime::Prediction& prediction) { rows.write(format.rows(prediction)); });
  rows.publish();
}

void write_results(const StepEnvironment& environment, const fs::path& file, size_t count,
                   const runtime::Rate& rate, Clock::duration took) {
  const double seconds = std::chrono::duration<double>(took).count();
  std::printf("%zu samples, %s\n", count, file.filename().c_str());
  write_outputs(environment, {{"predictions", file.filename().string()}});
  write_summary(environment,
                {{"samples", count}, {rate.metric, std::round(rate.of(double(count) / seconds))}});
}

int predict_rank(runtime::Communicator& comm) {
  const StepEnvironment environment = read_step_environment();
  const Request request = parse_request(environment.with);
  runtime::TrainedNetwork network =
      runtime::load_trained_network(comm, request.checkpoint, request.batch);
  const auto format = prediction_file(request.format, network.model, network.classes);
  runtime::SharedSplit split = runtime::open_shared_split(comm, request.data, request.split);
  split.dataset = split.dataset.without_validation();
  runtime::require_agreement(comm, {{"the data", split.identity}});
  runtime::require_fitting(network.model, split.dataset, "the data", runtime::Purpose::Predict);
  runtime::require_same_tokens(network, split.dataset, "the data");

  const size_t samples = split.dataset.size();
  const IndexRange shard =
      runtime::batches_of(samples, request.batch, int(request.shard), int(request.shards));
  const fs::path file = environment.outputs / format->name();
  const auto started = Clock::now();
  write_part(comm, network, split, request, shard, *format, part_file(file, comm.rank()));
  comm.barrier();
  if (comm.rank() != 0) return 0;
  const size_t first = std::min(shard.first * request.batch, samples);
  const size_t count = std::min((shard.first + shard.count) * request.batch, samples) - first;
  join_parts(file, *format, count, comm.size());
  write_results(environment, file, count, runtime::rate_of(network.model, split.dataset),
                Clock::now() - started);
  return 0;
}

}  // namespace
}  // namespace dlflow::steps

int main(int argc, char** argv) {
  using namespace dlflow::steps;
  return run_program({.help = program_help(), .task = "predict", .work = predict_rank}, argc, argv);
}
