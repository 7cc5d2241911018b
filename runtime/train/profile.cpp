#include "runtime/train/profile.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "runtime/collectives/topology.h"
#include "runtime/timeline/step_times.h"
#include "runtime/train/cpu_worker.h"
#include "runtime/train/preparation.h"

namespace dlflow::runtime {
namespace {

constexpr int kLoadsMeasured = 5;

void require_steps_of_all(const TrainSettings& settings) {
  if (settings.device == Device::Cuda) {
    throw Error(
        Errc::InvalidInput,
        "--profile-steps measures layers on CPUs; with: 'device' is cuda. Leave the key out");
  }
  if (settings.cooperation.kind != CooperationOptions::Kind::Synchronous) {
    throw Error(Errc::InvalidInput,
                "--profile-steps measures steps that all ranks take together; leave the key "
                "'cooperation' out of with:");
  }
}

/// Returns "conv1" for "conv1.weight".
std::string layer_of(const Parameter& parameter) {
  return parameter.name.substr(0, parameter.name.rfind('.'));
}

/// Returns the gradient bytes of each layer, in the order of the model.
Json layers_of(const Model& model, const WeightLayout& layout) {
  std::map<std::string, size_t> bytes;
  for (const Parameter& parameter : std::span(layout.parameters()).first(layout.num_exchanged())) {
    bytes[layer_of(parameter)] += parameter.size * sizeof(float);
  }
  Json layers = Json::array();
  for (const Layer& layer : model.layers) {
    layers.push_back({{"name", layer.name},
                      {"gradient_bytes", bytes[layer.name]},
                      {"dense_bytes_after_compression", nullptr}});
  }
  return layers;
}

/// Parts of a step, scaled so that they add up to the median step.
class Parts {
 public:
  explicit Parts(StepTimes times) : times_(std::move(times)) {
    double sum = 0;
    for (const double step : times_.steps) sum += step;
    scale_ = quantile(times_.steps, 0.5) / sum;
  }

  double waiting() const { return times_.waiting * scale_; }
  double other() const { return times_.other * scale_; }
  double step(double part) const { return quantile(times_.steps, part); }
  const std::vector<double>& ready() const { return times_.ready; }

  /// Can be called once per span; rest_is_other() adds the spans left to other().
  double take(const std::string& span) {
    const auto found = times_.computation.extract(span);
    return found ? found.mapped() * scale_ : 0;
  }
  void rest_is_other() {
    for (const auto& [span, time] : times_.computation) times_.other += time;
    times_.computation.clear();
  }

 private:
  StepTimes times_;
  double scale_ = 0;
};

void add_times(Json& point, const Model& model, Parts parts) {
  point["step_s"] = parts.step(0.5);
  point["step_low_s"] = parts.step(0.25);
  point["step_high_s"] = parts.step(0.75);
  Json forward = Json::array(), backward = Json::array();
  for (const Layer& layer : model.layers) {
    forward.push_back(parts.take(layer.name));
    backward.push_back(parts.take(layer.name + " backward") + parts.take(layer.name + " again"));
  }
  point["forward_s"] = forward;
  point["backward_s"] = backward;
  point["update_s"] = parts.take(std::string(kUpdateSpan));
  point["data_wait_s"] = parts.take(std::string(kLoadSpan));
  point["communication_wait_s"] = parts.waiting() + parts.take(std::string(kSumSpan));
  parts.rest_is_other();
  point["other_s"] = parts.other();
}

Json buckets_of(const std::vector<size_t>& bytes, const std::vector<double>& ready) {
  Json buckets = Json::array();
  for (size_t i = 0; i < std::min(bytes.size(), ready.size()); ++i) {
    buckets.push_back({{"bytes", bytes[i]}, {"ready_s", ready[i]}});
  }
  return buckets;
}

uint64_t peak_memory_bytes() {
  struct rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return uint64_t(usage.ru_maxrss) << 10;
}

size_t samples_of(const IndexRange& leaves, const Division& division) {
  const auto first_of = [&](size_t leaf) {
    return division.first_of_leaf(division.global_batch, leaf);
  };
  return first_of(leaves.first + leaves.count) - first_of(leaves.first);
}

class Profile {
 public:
  Profile(Communicator& comm, TrainingJob job)
      : comm_(comm),
        job_(prepared(comm, std::move(job))),
        data_(held_out(comm, std::move(job_.data), job_.settings)),
        normalization_(input_normalization(comm, job_, data_.train)) {
    // Measures whole steps only, if there are any.
    if (data_.train.size() >= global_batch(job_.settings, comm.size())) {
      job_.settings.last_batch = LastBatch::Drop;
    }
  }

  Json measure(uint64_t steps) {
    Json points = Json::array();
    measure_point(steps, points);
    const bool is_rough = job_.settings.precision.compute == Compute::BFloat16 && has_fast_bf16();
    result_["compute"] = is_rough ? "bf16" : "fp32";
    if (points.front().at("leaf_samples") > 1) {
      halve_leaves();
      measure_point(steps, points);
    }
    result_["points"] = points;
    result_["network"] = profile_network(comm_, job_);
    result_["optimizer"] = name(job_.settings.update.optimizer.kind);
    return result_;
  }

 private:
  /// Keeps the number of leaves and halves their samples.
  void halve_leaves() {
    TrainSettings& settings = job_.settings;
    settings.precision.leaves = num_leaves(settings, comm_.size()) / settings.update.accumulate;
    (settings.batch_per_rank ? *settings.batch_per_rank : settings.batch) /= 2;
  }

  void measure_point(uint64_t steps, Json& points) {
    Recording recording(comm_, steps, {});
    CpuWorker worker(comm_, job_, data_, normalization_, recording,
                     {.wishes = [] { return StepReport{}; }, .stepped = [](const StepMetrics&) {}});
    comm_.barrier();  // until the state is filled
    worker.seek(0, 0);
    for (uint64_t step = 0; step < Recording::kStepsBefore + steps; ++step) step_of(worker, step);
    worker.finish_update(Recording::kStepsBefore + steps);
    Json point = about(worker);
    point["steps"] = steps;
    const StepTimes times = step_times(recording.timeline().spans());
    add_times(point, job_.model, Parts(times));
    point["buckets"] = buckets_of(worker.bucket_bytes(), times.ready);
    points.push_back(std::move(point));
  }

  void step_of(CpuWorker& worker, uint64_t step) {
    const StepReport report = worker.step().report;
    if (!std::isfinite(report.loss)) fail_loss(comm_, report.loss, worker.divergence(), step + 1);
  }

  Json about(CpuWorker& worker) {
    if (!result_.contains("layers")) {
      result_["layers"] = layers_of(job_.model, worker.layout());
      result_["parameters_bytes"] = worker.layout().exchanged_size() * sizeof(float);
      load_s_ = load_time(worker);
    }
    const auto noise = worker.take_noise_scale();
    const auto at = std::chrono::system_clock::now().time_since_epoch();
    return {{"ranks", comm_.size()},
            {"nodes", topology_of(comm_).nodes.size()},
            {"mode", job_.settings.precision.exact ? "exact" : "fast"},
            {"at", std::chrono::duration_cast<std::chrono::seconds>(at).count()},
            {"batch", worker.global_batch()},
            {"samples_per_rank", samples_of(worker.leaves(), worker.division())},
            {"leaf_samples", worker.division().usual_leaf()},
            {"leaves_per_rank", worker.leaves().count},
            {"load_s_per_sample", load_s_},
            {"noise_scale", noise ? Json(*noise) : Json(nullptr)},
            {"memory_bytes", peak_memory_bytes()}};
  }

  /// Returns the time to load a sample with one thread and without prefetching.
  double load_time(const CpuWorker& worker) {
    TrainingJob alone = job_;
    alone.prefetch = 0;
    alone.loader_threads = 1;
    Timeline silent;
    Batches batches(comm_, alone, data_, normalization_, {worker.division(), worker.leaves()},
                    silent);
    batches.seek(0, 0);
    std::vector<double> seconds;
    for (int i = 0; i < kLoadsMeasured; ++i) {
      batches.load();
      seconds.push_back(batches.last_wait_s());
    }
    const size_t samples = std::max(samples_of(worker.leaves(), worker.division()), size_t{1});
    return quantile(seconds, 0.5) / double(samples);
  }

  Communicator& comm_;
  TrainingJob job_;
  TrainingData data_;
  Normalization normalization_;
  Json result_;
  double load_s_ = 0;
};

}  // namespace

Json profile(Communicator& comm, TrainingJob job, uint64_t steps) {
  require_steps_of_all(job.settings);
  return Profile(comm, std::move(job)).measure(steps);
}

}  // namespace dlflow::runtime
