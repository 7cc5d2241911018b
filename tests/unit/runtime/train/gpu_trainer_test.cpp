#include <cmath>

#include "base/error.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/train/trainer.h"
#include "runtime/train/training_state.h"
#include "tests/support/catch.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/on_ranks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_data.h"

using namespace dlflow;
using namespace dlflow::runtime;
using Catch::Contains;

namespace {

/// 205 training samples in batches of 32: the last batch of an epoch has 13.
TrainingJob tiny_job(const std::filesystem::path& folder, Device device, uint64_t epochs) {
  TrainingJob job;
  job.settings.device = device;
  job.settings.epochs = epochs;
  job.settings.batch = 32;
  job.settings.precision.exact = false;
  job.settings.lr = 0.05;
  job.settings.validation = 50;
  job.settings.warmup_epochs = 0.5;
  job.settings.schedule = Schedule::Course::Constant;
  job.model = parse_model(test::kTinyModel, "tiny.yaml");
  job.data = test::tiny_dataset(255);
  job.checkpoints = folder / "checkpoints";
  job.metrics = folder / "metrics.jsonl";
  job.gpu = {DLFLOW_FAKE_GPU, DLFLOW_FAKE_GPU};
  return job;
}

TrainingEnd train_on(int ranks, const TrainingJob& job) {
  const std::atomic<bool> go_on = false;
  return test::on_ranks(ranks, [&](Communicator& comm) {
    test::fake_gpu() = {};
    return train(comm, job, go_on);
  })[0];
}

/// Every weight, statistic and velocity of a checkpoint, in plain order.
std::vector<float> numbers_of(const TrainingEnd& end) {
  const Model model = parse_model(test::kTinyModel, "tiny.yaml");
  const auto layout = plain_layout(model);
  std::vector<float> weights(layout->size()), velocity(layout->trainable_size());
  const Checkpoint checkpoint = load_checkpoint(end.checkpoint);
  load_weights(checkpoint, *layout, weights);
  load_optimizer_buffer(checkpoint, *layout, "", velocity);
  weights.insert(weights.end(), velocity.begin(), velocity.end());
  return weights;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(double(a[i]) - b[i]));
  return largest;
}

}  // namespace

TEST_CASE("training on GPUs ends where training on CPUs ends", "[gpu_trainer]") {
  const int ranks = GENERATE(1, 2);
  const test::TempDir cpu, gpu;
  const TrainingEnd expected = train_on(ranks, tiny_job(cpu.path(), Device::Cpu, 2));
  TrainingJob job = tiny_job(gpu.path(), Device::Cuda, 2);
  job.prefetch = GENERATE(0, 2);  // with a thread, batches are staged during the step before
  const TrainingEnd end = train_on(ranks, job);
  CHECK(end.finished);
  CHECK(end.summary.at("steps") == 2 * 7);
  CHECK(end.summary.at("ranks") == ranks);
  CHECK(std::abs(end.summary.at("accuracy").get<double>() -
                 expected.summary.at("accuracy").get<double>()) < 0.03);
  CHECK(std::abs(end.summary.at("loss").get<double>() - expected.summary.at("loss").get<double>()) <
        1e-3);
  CHECK(largest_difference(numbers_of(end), numbers_of(expected)) < 1e-4);
}

TEST_CASE("a run on GPUs goes on from its checkpoint with the same bits", "[gpu_trainer]") {
  const test::TempDir whole, parts;
  const TrainingEnd expected = train_on(2, tiny_job(whole.path(), Device::Cuda, 3));
  train_on(2, tiny_job(parts.path(), Device::Cuda, 1));
  const TrainingEnd end = train_on(2, tiny_job(parts.path(), Device::Cuda, 3));
  CHECK(numbers_of(end) == numbers_of(expected));
}

TEST_CASE("a run may switch between CPU and GPU at a checkpoint", "[gpu_trainer]") {
  const test::TempDir cpu, changing;
  const TrainingEnd expected = train_on(1, tiny_job(cpu.path(), Device::Cpu, 3));
  train_on(1, tiny_job(changing.path(), Device::Cpu, 1));
  train_on(1, tiny_job(changing.path(), Device::Cuda, 2));
  const TrainingEnd end = train_on(1, tiny_job(changing.path(), Device::Cpu, 3));
  CHECK(end.summary.at("steps") == 3 * 7);
  CHECK(largest_difference(numbers_of(end), numbers_of(expected)) < 1e-4);
}

TEST_CASE("batches of every size are built before the first step", "[gpu_trainer]") {
  const test::TempDir dir;
  const TrainingJob job = tiny_job(dir.path(), Device::Cuda, 2);
  const std::atomic<bool> go_on = false;
  const auto built_late = test::on_ranks(2, [&](Communicator& comm) {
    test::fake_gpu() = {};
    train(comm, job, go_on);
    size_t count = 0;
    for (const std::string& call : test::fake_gpu().log) count += call.starts_with("build");
    return count;
  });
  CHECK(built_late == std::vector<size_t>{0, 0});
}

TEST_CASE("a NaN weight on a GPU stops the run in its step", "[gpu_trainer]") {
  const test::TempDir dir;
  TrainingJob job = tiny_job(dir.path(), Device::Cuda, 2);
  job.settings.lr = 1e30;
  job.settings.warmup_epochs = 0;
  CHECK_THROWS_AS(train_on(1, job), Diverged);
}

TEST_CASE("a NaN loss on a GPU stops the run in its step", "[gpu_trainer]") {
  const int ranks = GENERATE(1, 2);
  const test::TempDir dir;
  TrainingJob job = tiny_job(dir.path(), Device::Cuda, 2);
  job.settings.lr = 1e20;
  job.settings.warmup_epochs = 0;
  CHECK_THROWS_WITH(train_on(ranks, job),
                    Contains("loss is ") && Contains(" at step 2; a lower lr"));
}

TEST_CASE("a run without the plug-in names what it needs", "[gpu_trainer]") {
  const test::TempDir dir;
  TrainingJob job = tiny_job(dir.path(), Device::Cuda, 1);
  job.gpu.plugin = dir.path() / "libdlflow_cuda.so";
  CHECK_THROWS_WITH(train_on(1, job), Contains("'device: cuda' needs libdlflow_cuda"));
}

TEST_CASE("settings that a GPU cannot support are refused before anything is read",
          "[gpu_trainer]") {
  const auto mistake = [](Json more) -> std::string {
    Json with = {{"model", "m"}, {"data", "d"},      {"epochs", 1},
                 {"lr", 0.1},    {"device", "cuda"}, {"precision", {{"reduction", "fast"}}}};
    with.update(more);
    try {
      parse_train_settings(with);
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  };
  CHECK(mistake(Json::object()).empty());
  CHECK_THAT(mistake({{"device", "gpu"}}), Contains("'device' must be 'cpu' or 'cuda'"));
  CHECK_THAT(mistake({{"precision", {{"reduction", "exact"}}}}),
             Contains("'precision: {reduction: fast}'"));
  CHECK_THAT(mistake({{"precision", {{"reduction", "fast"}, {"compute", "bf16"}}}}),
             Contains("computes in fp32 or tf32"));
  CHECK(mistake({{"precision", {{"reduction", "fast"}, {"compute", "tf32"}}}}).empty());
  CHECK_THAT(mistake({{"device", "cpu"}, {"precision", {{"compute", "tf32"}}}}),
             Contains("'device: cuda'"));
  CHECK_THAT(mistake({{"batch_norm", "global"}}), Contains("'batch_norm: global'"));
  CHECK_THAT(mistake({{"gradients", {{"wire", "fp16"}}}}), Contains("'gradients.wire'"));
  CHECK_THAT(mistake({{"optimizer", {{"kind", "adam"}}}}),
             Contains("'optimizer: {kind: sgd}', without"));
  CHECK_THAT(mistake({{"cooperation", {{"kind", "gossip"}}}}), Contains("'cooperation'"));
  CHECK_THAT(mistake({{"gradients", {{"compression", "topk"}, {"density", 0.01}}}}),
             Contains("'gradients.compression'"));
  CHECK_THAT(mistake({{"cache", {{"memory", 1 << 30}}}, {"normalize", {{"mean", 0}, {"std", 1}}}}),
             Contains("'cache'"));
  CHECK_THAT(mistake({{"clip_norm", 1}}), Contains("'clip_norm'"));
  CHECK_THAT(mistake({{"accumulate", 2}}), Contains("'accumulate'"));
  CHECK_THAT(mistake({{"shard_optimizer", true}}), Contains("'shard_optimizer'"));
  CHECK_THAT(mistake({{"label_smoothing", 0.1}}), Contains("'label_smoothing'"));
}
