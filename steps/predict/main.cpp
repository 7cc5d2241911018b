#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>

#include "base/error.h"
#include "base/shared_bytes.h"
#include "base/text.h"
#include "runtime/data/file_writer.h"
#include "runtime/data/loader.h"
#include "runtime/data/split_files.h"
#include "runtime/train/agreement.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/rate.h"
#include "runtime/train/shared_split.h"
#include "runtime/train/trained_network.h"
#include "steps/environment/step_environment.h"
#include "steps/predict/new_samples.h"
#include "steps/predict/prediction_file.h"
#include "steps/predict/request.h"
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

struct Job {
  runtime::Communicator& comm;
  const StepEnvironment& environment;
  const Request& request;
  runtime::TrainedNetwork& network;
};

using Take = std::function<void(const runtime::Prediction&)>;

/// Writes the predictions of this job's part of `samples` samples, and returns how many it has.
/// `predict` calls its argument with the scores of this rank's batches.
size_t write_file(const Job& job, const PredictionFile& format, size_t samples,
                  const std::function<void(IndexRange batches, const Take&)>& predict) {
  const Request& request = job.request;
  const fs::path file = job.environment.outputs / format.name();
  const IndexRange shard =
      runtime::batches_of(samples, request.batch, int(request.shard), int(request.shards));
  runtime::FileWriter rows(part_file(file, job.comm.rank()));
  predict(runtime::part_of(shard, job.comm.rank(), job.comm.size()),
          [&](const runtime::Prediction& prediction) { rows.write(format.rows(prediction)); });
  rows.publish();
  job.comm.barrier();
  const size_t first = std::min(shard.first * request.batch, samples);
  const size_t count = std::min((shard.first + shard.count) * request.batch, samples) - first;
  if (job.comm.rank() == 0) join_parts(file, format, count, job.comm.size());
  return count;
}

void write_results(const Job& job, const PredictionFile& format, const Json& summary) {
  if (job.comm.rank() != 0) return;
  std::printf("%s samples, %s\n", summary.at("samples").dump().c_str(), format.name().c_str());
  write_outputs(job.environment, {{"predictions", format.name()}});
  write_summary(job.environment, summary);
}

void predict_data_set(const Job& job) {
  const auto& [comm, environment, request, network] = job;
  const auto format = prediction_file(request.format, network.model, network.classes);
  runtime::SharedSplit split = runtime::open_shared_split(comm, request.data, request.split);
  split.dataset = split.dataset.without_validation();
  runtime::require_agreement(comm, {{"the data", split.identity}});
  runtime::require_fitting(network.model, split.dataset, "the data", runtime::Purpose::Predict);
  runtime::require_same_tokens(network, split.dataset, "the data");
  const runtime::OrderedSamples samples = {
      split.dataset, network.normalization, request.batch, split.images.get(),
      runtime::loader_threads(request.loader_threads, split.dataset, threads_per_rank())};
  const auto started = Clock::now();
  const size_t count =
      write_file(job, *format, split.dataset.size(), [&](IndexRange batches, const Take& take) {
        runtime::predict(job.comm, job.network, samples, batches, take);
      });
  const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
  const runtime::Rate rate = runtime::rate_of(network.model, split.dataset);
  write_results(job, *format,
                {{"samples", count}, {rate.metric, std::round(rate.of(double(count) / seconds))}});
}

/// Predicts `samples` batch by batch: they need not fit into memory together.
void predict_batches(const Job& job, NewSamples& samples, IndexRange batches, const Take& take) {
  const size_t batch = job.request.batch;
  for (size_t i = batches.first; i < batches.first + batches.count; ++i) {
    const size_t first = i * batch, count = std::min(batch, samples.names.size() - first);
    runtime::Dataset dataset = samples.read({first, count}, samples.faults);
    runtime::require_fitting(job.network.model, dataset, "the data", runtime::Purpose::Predict);
    runtime::predict(job.comm, job.network, {dataset, job.network.normalization, batch}, {0, 1},
                     [&](runtime::Prediction prediction) {
                       prediction.first = first;
                       take(prediction);
                     });
  }
}

/// Names what a CSV file leaves out, and returns how much. An .npy file cannot leave anything out,
/// since its rows have no names.
size_t report(const std::vector<std::string>& faults, PredictionFormat format) {
  size_t count = 0;
  for (const std::string& fault : faults) {
    if (fault.empty()) continue;
    if (format == PredictionFormat::Npy) {
      throw Error(Errc::InvalidInput, fault + "; take it out of the folder, or write a CSV file");
    }
    std::fprintf(stderr, "warning: left out: %s\n", escaped(fault).c_str());
    ++count;
  }
  return count;
}

void predict_new_samples(const Job& job) {
  const auto& [comm, environment, request, network] = job;
  NewSamples samples =
      open_new_samples(request.data, network.model,
                       request.origin.empty() ? network.origin : request.origin, network.tokenizer);
  for (const std::string& note : samples.notes) {
    if (comm.rank() == 0) std::fprintf(stderr, "warning: %s\n", escaped(note).c_str());
  }
  const auto format = prediction_file(request.format, network.model, network.classes, &samples);
  runtime::require_agreement(comm, {{"the samples", join(samples.names, "\n")}});
  size_t own = 0;
  size_t rest =
      write_file(job, *format, samples.names.size(), [&](IndexRange batches, const Take& take) {
        predict_batches(job, samples, batches, take);
        own = report(samples.faults, job.request.format);
      });
  for (const size_t left_out : runtime::gather(comm, own)) rest -= left_out;
  if (rest == 0) throw Error(Errc::InvalidInput, request.data + ": none of its files can be read");
  write_results(job, *format, {{"samples", rest}});
}

int predict_rank(runtime::Communicator& comm) {
  const StepEnvironment environment = read_step_environment();
  const Request request = parse_request(environment.with);
  runtime::TrainedNetwork network =
      runtime::load_trained_network(comm, request.checkpoint, request.batch);
  const Job job = {comm, environment, request, network};
  runtime::is_data_set(request.data) ? predict_data_set(job) : predict_new_samples(job);
  return 0;
}

}  // namespace
}  // namespace dlflow::steps

int main(int argc, char** argv) {
  using namespace dlflow::steps;
  return run_program({.help = program_help(), .task = "predict", .work = predict_rank}, argc, argv);
}
