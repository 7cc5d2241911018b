#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/sha256.h"
#include "base/text.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/nn/huge_buffer.h"
#include "runtime/train/network_set.h"
#include "runtime/train/trainer.h"
#include "runtime/train/training_state.h"
#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_data.h"

/// Training runs that take milliseconds, on ranks that are threads.
namespace dlflow::test {

using namespace runtime;

/// 205 training samples in batches of 32: the last batch of an epoch has 13, in 8 leaves of 1 or 2.
inline TrainingJob tiny_job(const std::filesystem::path& folder, uint64_t epochs) {
  TrainingJob job;
  job.settings.epochs = epochs;
  job.settings.batch = 32;
  job.settings.precision.leaves = 8;
  job.settings.lr = 0.05;
  job.settings.validation = 50;
  job.settings.warmup_epochs = 0.5;
  job.settings.augmentation.flip = true;
  job.model = parse_model(kTinyModel, "tiny.yaml");
  job.data = tiny_dataset(255);
  job.checkpoints = folder / "checkpoints";
  job.metrics = folder / "metrics.jsonl";
  return job;
}

/// With kStop, a run takes one step and saves.
inline const std::atomic<bool> kGoOn = false, kStop = true;

/// The end of each rank's run. Of the ranks, `ranks_per_node` share memory, or all with 0.
inline std::vector<TrainingEnd> train_on(int ranks, const TrainingJob& job,
                                         const std::atomic<bool>& stop = kGoOn,
                                         int ranks_per_node = 0) {
  ThreadGroup group(ranks, std::chrono::seconds(60), ranks_per_node);
  return on_ranks(group, ranks, [&](Communicator& comm) { return train(comm, job, stop); });
}

/// Takes one step on each of these numbers of ranks, and all others on the last of them.
inline void train_in_parts(const TrainingJob& job, const std::vector<int>& ranks,
                           int ranks_per_node = 0) {
  for (size_t i = 0; i < ranks.size(); ++i) {
    const bool is_last = i + 1 == ranks.size();
    const auto ends = train_on(ranks[i], job, is_last ? kGoOn : kStop, ranks_per_node);
    CHECK(ends[0].finished == is_last);
  }
}

/// The hash of all tensors of the newest checkpoint.
inline std::string newest_bits(const std::filesystem::path& folder) {
  const std::filesystem::path newest = list_checkpoints(folder / "checkpoints").back();
  std::string bits;
  for (const char* name : {"model", "optimizer", "compression"}) {
    const std::filesystem::path file = newest / (std::string(name) + ".safetensors");
    if (std::filesystem::exists(file)) bits += read_file(file);
  }
  return sha256_hex(bits);
}

inline std::map<std::string, std::vector<float>> tensors_in(const Safetensors& tensors) {
  std::map<std::string, std::vector<float>> values;
  for (const TensorView& tensor : tensors.tensors()) {
    values[tensor.name].resize(tensor.bytes.size() / sizeof(float));
    copy_elements<float>(tensor, values[tensor.name]);
  }
  return values;
}

inline std::map<std::string, std::vector<float>> newest_weights(const TrainingJob& job) {
  return tensors_in(load_checkpoint(list_checkpoints(job.checkpoints).back()).model);
}

inline std::vector<Json> lines_of(const std::filesystem::path& file) {
  std::vector<Json> lines;
  for (const std::string& line : split(read_file(file), '\n')) {
    if (!line.empty()) lines.push_back(Json::parse(line));
  }
  return lines;
}

/// The results of a run in a folder of its own.
struct Trained {
  std::string bits;
  Json summary;
  std::vector<Json> lines;

  /// Bits of the weights and of their measures.
  std::string result() const {
    return bits + summary.at("accuracy").dump() + summary.at("loss").dump();
  }
};

using JobChange = std::function<void(TrainingJob&)>;

/// Runs tiny_job() after `change`.
inline Trained trained(int ranks, int ranks_per_node, uint64_t epochs, const JobChange& change) {
  const TempDir dir;
  TrainingJob job = tiny_job(dir.path(), epochs);
  change(job);
  const TrainingEnd end = train_on(ranks, job, kGoOn, ranks_per_node)[0];
  return {newest_bits(dir.path()), end.summary, lines_of(job.metrics)};
}

/// newest_bits() after train_in_parts() of tiny_job() after `change`.
inline std::string bits_in_parts(const std::vector<int>& ranks, int ranks_per_node, uint64_t epochs,
                                 const JobChange& change) {
  const TempDir dir;
  TrainingJob job = tiny_job(dir.path(), epochs);
  change(job);
  train_in_parts(job, ranks, ranks_per_node);
  return newest_bits(dir.path());
}

/// Changes `job` so that the gradient of b.weight is not finite in the second step, while the loss
/// is small.
inline void overflow_gradient_of_b(TrainingJob& job) {
  job.model = parse_model(
      "name: deep\ninput: [64]\nlayers:\n  - linear: {name: a, features: 4}\n"
      "  - linear: {name: b, features: 4}\n  - linear: {name: c, features: 3}\n",
      "deep.yaml");
  const Checkpoint checkpoint = load_checkpoint(train_on(1, job, kStop)[0].checkpoint);
  const NetworkSet networks(job.model, 4, Network::Mode::Training);
  const WeightLayout& layout = *networks.layout();
  HugeBuffer weights(layout.size()), zeros(layout.trainable_size());
  for (size_t i = 0; i < layout.parameters().size(); ++i) {
    const bool c = layout.parameters()[i].name == "c.weight";
    const bool a = layout.parameters()[i].name == "a.bias";
    std::vector<float> values = layout.to_plain(weights.floats(), i);
    for (size_t k = 0; k < values.size(); ++k) values[k] = c ? float(k) * 1e30f : a ? 1e10f : 0;
    layout.from_plain(values, weights.floats(), i);
  }
  CheckpointInfo info = checkpoint.info;
  info.step = 2;
  std::vector<BufferCopy> buffers;
  for (const std::string& name : make_optimizer(job.settings.update.optimizer)->state_names()) {
    buffers.push_back({name, zeros.floats()});
  }
  save_training(job.checkpoints, 5,
                {layout, training_state_of(checkpoint), info, weights.floats(), buffers});
}

}  // namespace dlflow::test
