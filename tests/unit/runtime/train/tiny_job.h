#pragma once

#include <atomic>
#include <filesystem>
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

inline const std::atomic<bool> kGoOn = false;

/// The end of each rank's run.
inline std::vector<TrainingEnd> train_on(int ranks, const TrainingJob& job,
                                         const std::atomic<bool>& stop = kGoOn) {
  return on_ranks(ranks, [&](Communicator& comm) { return train(comm, job, stop); });
}

/// The hash of all tensors of the newest checkpoint.
inline std::string newest_bits(const std::filesystem::path& folder) {
  const std::filesystem::path newest = list_checkpoints(folder / "checkpoints").back();
  return sha256_hex(read_file(newest / "model.safetensors") +
                    read_file(newest / "optimizer.safetensors"));
}

inline std::vector<Json> lines_of(const std::filesystem::path& file) {
  std::vector<Json> lines;
  for (const std::string& line : split(read_file(file), '\n')) {
    if (!line.empty()) lines.push_back(Json::parse(line));
  }
  return lines;
}

/// Changes `job` so that the gradient of b.weight is not finite in the second step, while the loss
/// is small.
inline void overflow_gradient_of_b(TrainingJob& job) {
  job.model = parse_model(
      "name: deep\ninput: [64]\nlayers:\n  - linear: {name: a, features: 4}\n"
      "  - linear: {name: b, features: 4}\n  - linear: {name: c, features: 3}\n",
      "deep.yaml");
  const std::atomic<bool> stop = true;
  const Checkpoint checkpoint = load_checkpoint(train_on(1, job, stop)[0].checkpoint);
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
