#include "runtime/train/profile.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "runtime/collectives/allreduce.h"
#include "runtime/collectives/timing.h"
#include "runtime/collectives/topology.h"
#include "runtime/nn/convolution_choice.h"
#include "runtime/settings/parts.h"
#include "runtime/timeline/step_times.h"
#include "runtime/train/cpu_worker.h"
#include "runtime/train/preparation.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kSmallestSum = size_t{1} << 10, kLargestSum = size_t{16} << 20;
constexpr double kSecondsEachSum = 0.1;
constexpr size_t kCompressedNumbers = size_t{1} << 20;
constexpr int kCompressions = 7;

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

/// The exchanged bytes of each layer, in the order of the model.
Json layers_of(const Model& model, const WeightLayout& layout) {
  std::map<std::string, size_t> bytes;
  for (const Parameter& parameter : std::span(layout.parameters()).first(layout.num_exchanged())) {
    const std::string layer = parameter.name.substr(0, parameter.name.rfind('.'));
    bytes[layer] += parameter.size * sizeof(float);
  }
  Json layers = Json::array();
  for (const Layer& layer : model.layers) {
    layers.push_back({{"name", layer.name}, {"gradient_bytes", bytes[layer.name]}});
  }
  return layers;
}

/// The parts of a step. Each is the part's share of all steps, times the median step, so that the
/// parts add up to the median step.
Json parts_of(const Model& model, StepTimes times) {
  double sum = 0;
  for (const double step : times.steps) sum += step;
  const double scale = quantile(times.steps, 0.5) / sum;
  const auto take = [&](const std::string& span) {
    const auto found = times.computation.extract(span);
    return found ? found.mapped() * scale : 0;
  };
  Json forward = Json::array(), backward = Json::array();
  for (const Layer& layer : model.layers) {
    forward.push_back(take(layer.name));
    backward.push_back(take(layer.name + " backward") + take(layer.name + " again"));
  }
  Json parts = {{"step_s", quantile(times.steps, 0.5)},
                {"step_low_s", quantile(times.steps, 0.25)},
                {"step_high_s", quantile(times.steps, 0.75)},
                {"forward_s", forward},
                {"backward_s", backward},
                {"update_s", take(std::string(kUpdateSpan))},
                {"data_wait_s", take(std::string(kLoadSpan))},
                {"communication_wait_s", times.waiting * scale + take(std::string(kSumSpan))}};
  for (const auto& [span, time] : times.computation) times.other += time;
  parts["other_s"] = times.other * scale;
  return parts;
}

/// The indices of the convolutions that this thread can compute by two algorithms.
std::vector<size_t> choices_of(const Model& model, Compute compute) {
  std::vector<size_t> found;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    if (can_use_winograd(compute, layer, model.shape_of(layer.inputs[0]))) found.push_back(i);
  }
  return found;
}

uint64_t peak_memory_bytes() {
  struct rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return uint64_t(usage.ru_maxrss) << 10;
}

/// As in a step of `job`, without compression: exact sums have fewer ways.
AllreduceOptions sums_of(const TrainingJob& job, int ranks) {
  if (!job.settings.precision.exact) return {.rules = job.rules};
  const size_t leaves = std::max(num_leaves(job.settings, ranks), size_t(ranks));
  return {.order = sum_in_leaf_order(leaves, ranks), .rules = job.rules};
}

/// The all-reduces of these ranks, from 1 KiB to 16 MiB; none for one rank.
Json network_of(Communicator& comm, const TrainingJob& job) {
  Json measured = Json::array();
  if (comm.size() == 1) return measured;
  const AllreduceOptions options = sums_of(job, comm.size());
  const AllreducePlan plan(comm, options);
  Allreduce allreduce(comm, kLargestSum / sizeof(float), options);
  for (size_t bytes = kSmallestSum; bytes <= kLargestSum; bytes *= 4) {
    const size_t count = bytes / sizeof(float);
    Contender sum{"the all-reduce of a training", allreduce.values().first(count), [&] {
                    allreduce.start(0, count);
                    allreduce.finish();
                  }};
    take_turns(comm, {&sum, 1}, kSecondsEachSum);
    measured.push_back({{"ranks", comm.size()},
                        {"nodes", plan.topology().nodes.size()},
                        {"algorithm", name(plan.over_all(bytes))},
                        {"bytes", bytes},
                        {"seconds", sum.median()}});
  }
  return measured;
}

template <class Work>
double median_seconds(const Work& work) {
  std::vector<double> seconds;
  for (int i = 0; i < kCompressions; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    seconds.push_back(took.count());
  }
  return quantile(seconds, 0.5);
}

/// The cost of each method that makes messages; PowerSgd makes factors of matrices instead.
/// Encoding includes a pass that adds the gradients to what was not sent, as in a step.
Json compressors_of(const Compression& usual) {
  std::vector<float> values(kCompressedNumbers), error, sum(kCompressedNumbers);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(float(i * i % 9973));
  Json measured = Json::array();
  for (int number = 0; number < int(CompressionMethod::PowerSgd); ++number) {
    const auto method = CompressionMethod(number);
    const std::string text = to_text({.method = method});
    const Occasion occasion{.density = usual.density};
    const auto compressor = make_compressor(method);
    const size_t size = compressor->message_bytes(values.size(), occasion);
    std::vector<float> memory(size / sizeof(float) + 1);
    const auto message = std::as_writable_bytes(std::span(memory)).first(size);
    const double encode_s = median_seconds([&] {
      error = values;
      compress(*compressor, occasion, {error, {}}, message);
    });
    const double decode_s =
        median_seconds([&] { compressor->add(message, occasion, 1, std::span(sum)); });
    measured.push_back({{"method", text.substr(0, text.find(','))},
                        {"bytes", values.size() * sizeof(float)},
                        {"message_bytes", size},
                        {"encode_s", encode_s},
                        {"decode_s", decode_s}});
  }
  return measured;
}

class Profile {
 public:
  Profile(Communicator& comm, TrainingJob job)
      : comm_(comm),
        job_(prepared(comm, std::move(job))),
        data_(held_out(comm, std::move(job_.data), job_.settings)),
        normalization_(input_normalization(comm, job_, data_.train)) {
    // Measures whole steps only, unless the data has none.
    if (data_.train.size() >= global_batch(job_.settings, comm.size())) {
      job_.settings.last_batch = LastBatch::Drop;
    }
  }

  Json measure(uint64_t steps) {
    const TrainSettings& settings = job_.settings;
    measure_point(steps);
    if (steps > 1) measure_algorithms(steps);  // one is `dlflow data check`
    const bool is_rough = settings.precision.compute == Compute::BFloat16 && has_fast_bf16();
    result_["compute"] = is_rough ? "bf16" : "fp32";
    result_["optimizer"] = name(settings.update.optimizer.kind);
    result_["samples"] = data_.train.size();
    if (!settings.precision.exact) {
      result_["compressors"] =
          compressors_of(settings.gradients.compression.value_or(Compression()));
    }
    if (result_["points"][0].at("leaf_samples") > 1) {
      halve_leaves();
      measure_point(steps);
    }
    result_["network"] = network_of(comm_, job_);
    return result_;
  }

 private:
  /// Keeps the number of leaves and halves their samples.
  void halve_leaves() {
    TrainSettings& settings = job_.settings;
    settings.precision.leaves = num_leaves(settings, comm_.size()) / settings.update.accumulate;
    (settings.batch_per_rank ? *settings.batch_per_rank : settings.batch) /= 2;
  }

  /// Trains with each algorithm that the convolutions can take, in turns: of each, the fastest turn
  /// counts, which other work on the machine has disturbed least.
  void measure_algorithms(uint64_t steps) {
    const std::vector<size_t> choices = choices_of(job_.model, job_.settings.precision.compute);
    if (choices.empty()) return;
    const Model model = job_.model;
    Json measured = usual_algorithms(choices);
    for (int turn = 0; turn < 3; ++turn) {
      for (const auto algorithm : {ConvolutionAlgorithm::Direct, ConvolutionAlgorithm::Winograd}) {
        for (const size_t i : choices) job_.model.layers[i].algorithm = algorithm;
        const Json parts = parts_of(model, run(steps, [](CpuWorker&) {}));
        for (size_t i = 0; i < choices.size(); ++i) {
          const size_t at = choices[i];
          const double seconds = double(parts["forward_s"][at]) + double(parts["backward_s"][at]);
          const std::string key = name(algorithm) + "_s";
          measured[i][key] = std::min(seconds, measured[i].value(key, seconds));
        }
      }
    }
    job_.model = model;
    result_["algorithms"] = measured;
  }

  Json usual_algorithms(const std::vector<size_t>& choices) const {
    const auto samples = int64_t(result_["points"][0].at("leaf_samples"));
    Json usual = Json::array();
    for (const size_t i : choices) {
      const Layer& layer = job_.model.layers[i];
      const bool winograd =
          uses_winograd(Compute::Float32, layer, job_.model.shape_of(layer.inputs[0]), samples);
      usual.push_back({{"layer", layer.name},
                       {"leaf_samples", samples},
                       {"used", winograd ? "winograd" : "direct"}});
    }
    return usual;
  }

  /// Makes the steps, calls look(worker), and returns the times.
  template <class Look>
  StepTimes run(uint64_t steps, const Look& look) {
    Recording recording(comm_, steps, {});
    CpuWorker worker(comm_, job_, data_, normalization_, recording,
                     {.wishes = [] { return StepReport{}; }, .stepped = [](const StepMetrics&) {}});
    comm_.barrier();  // until the state is filled
    worker.seek(0, 0);
    for (uint64_t step = 0; step < Recording::kStepsBefore + steps; ++step) {
      const double loss = worker.step().report.loss;
      if (!std::isfinite(loss)) fail_loss(comm_, loss, worker.divergence(), step + 1);
    }
    worker.finish_update(Recording::kStepsBefore + steps);
    look(worker);
    return step_times(recording.timeline().spans());
  }

  void measure_point(uint64_t steps) {
    Json point;
    const StepTimes times = run(steps, [&](CpuWorker& worker) {
      result_["layers"] = layers_of(job_.model, worker.layout());
      result_["parameters_bytes"] = worker.layout().exchanged_size() * sizeof(float);
      point = about(worker);
    });
    point["steps"] = steps;
    point.update(parts_of(job_.model, times));
    result_["points"].push_back(std::move(point));
  }

  Json about(CpuWorker& worker) const {
    const auto [first, count] = worker.leaves();
    const Division& division = worker.division();
    const auto first_sample = [&](size_t leaf) {
      return division.first_of_leaf(division.global_batch, leaf);
    };
    const auto noise = worker.take_noise_scale();
    const auto at = std::chrono::system_clock::now().time_since_epoch();
    return {{"ranks", comm_.size()},
            {"nodes", topology_of(comm_).nodes.size()},
            {"mode", job_.settings.precision.exact ? "exact" : "fast"},
            {"at", std::chrono::duration_cast<std::chrono::seconds>(at).count()},
            {"batch", worker.global_batch()},
            {"samples_per_rank", first_sample(first + count) - first_sample(first)},
            {"leaf_samples", division.usual_leaf()},
            {"leaves_per_rank", count},
            {"noise_scale", noise ? Json(*noise) : Json(nullptr)},
            {"memory_bytes", peak_memory_bytes()}};
  }

  Communicator& comm_;
  TrainingJob job_;
  TrainingData data_;
  Normalization normalization_;
  Json result_;
};

}  // namespace

Json profile(Communicator& comm, TrainingJob job, uint64_t steps) {
  require_steps_of_all(job.settings);
  return Profile(comm, std::move(job)).measure(steps);
}

}  // namespace dlflow::runtime
