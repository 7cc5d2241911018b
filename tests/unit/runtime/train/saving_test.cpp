#include "runtime/train/checkpoints.h"
#include "tests/support/catch.h"
#include "tests/support/limited.h"
#include "tests/unit/runtime/train/tiny_job.h"

/// Tests checkpoints that are written during training.
using namespace dlflow;
using namespace dlflow::runtime;
using test::tiny_job;
using test::train_on;
namespace fs = std::filesystem;

namespace {

/// A job with checkpoints above 100 KB and metrics below.
TrainingJob wide_job(const fs::path& folder, uint64_t epochs) {
  TrainingJob job = tiny_job(folder, epochs);
  job.model = parse_model(
      "name: wide\ninput: [1, 8, 8]\nlayers:\n  - flatten\n  - linear: {name: a, features: 500}\n"
      "  - relu\n  - linear: {name: b, features: 3}\n",
      "wide.yaml");
  return job;
}

}  // namespace

TEST_CASE("a checkpoint holds the state at its start, although training goes on",
          "[trainer][threads]") {
  const test::TempDir dir;
  const Model model = parse_model(test::kTinyModel, "tiny.yaml");
  const NetworkSet networks(model, 4, Network::Mode::Training);
  const WeightLayout& layout = *networks.layout();
  HugeBuffer weights(layout.size()), first(layout.trainable_size()),
      second(layout.trainable_size());
  initialise(layout, 1, weights.floats());
  std::ranges::copy(weights.floats().first(first.size()), first.floats().begin());
  ThreadGroup alone(1);
  StateSnapshot snapshot(layout);
  const bool gathered = GENERATE(false, true);  // from ranks that have shards of the state
  for (const uint64_t step : {1, 2}) {          // the second one reuses the memory of the first
    ModelState::OptimizerContent optimizer;
    optimizer.buffers = {{".m", first.floats()}, {".v", second.floats()}};
    if (gathered) {
      for (NamedBuffer& buffer : optimizer.buffers) {
        HugeBuffer& copy = optimizer.gathered.emplace_back(buffer.values.size());
        std::ranges::copy(buffer.values, copy.floats().begin());
        buffer.values = copy.floats();
      }
    }
    CheckpointInfo info;
    info.step = step;
    snapshot.take({}, info, weights.floats(), std::move(optimizer),
                  CompressionState(alone.communicator(0), layout, nullptr));
    std::vector<std::vector<float>> expected;
    for (size_t i = 0; i < layout.parameters().size(); ++i) {
      expected.push_back(layout.to_plain(weights.floats(), i));
    }
    for (float& weight : weights.floats()) weight += 1;
    const Checkpoint saved = load_checkpoint(snapshot.write(dir.path(), 9));
    for (size_t i = 0; i < layout.parameters().size(); ++i) {
      const std::string& name = layout.parameters()[i].name;
      std::vector<float> values(expected[i].size());
      copy_elements<float>(saved.model.at(name), values);
      CHECK(values == expected[i]);
      if (i >= layout.num_trainable()) continue;
      copy_elements<float>(saved.optimizer.at(name + ".m"), values);
      CHECK(values == layout.to_plain(first.floats(), i));
      copy_elements<float>(saved.optimizer.at(name + ".v"), values);
      CHECK(values == std::vector<float>(values.size()));
    }
  }
}

TEST_CASE("a checkpoint that cannot be written is named, ends the run, and leaves the older ones",
          "[trainer]") {
  const test::TempDir dir;
  const TrainingEnd before = train_on(1, wide_job(dir.path(), 1))[0];
  TrainingJob job = wide_job(dir.path(), 2000);
  SECTION("the checkpoint of a step") { job.policy = {CheckpointPolicy::Unit::Steps, 1, 2}; }
  SECTION("the checkpoint at the end") {
    job.settings.epochs = 2;
    job.policy = {CheckpointPolicy::Unit::Epochs, 100, 2};
  }
  {
    const test::Limited<RLIMIT_FSIZE> disk_is_full(50'000);
    CHECK_THROWS_WITH(train_on(1, job),
                      Catch::StartsWith("cannot write " + job.checkpoints.string()) &&
                          Catch::Contains("File too large"));
  }
  const LatestCheckpoint latest = latest_valid(job.checkpoints);
  CHECK(latest.path == before.checkpoint);
  CHECK(latest.rejected.empty());
}

TEST_CASE("a run that diverges while a checkpoint is written completes it", "[trainer]") {
  const test::TempDir dir;
  TrainingJob job = wide_job(dir.path(), 3);
  job.settings.lr = 1e6;
  job.settings.warmup_epochs = 0;
  job.policy = {CheckpointPolicy::Unit::Steps, 1, 2};
  CHECK_THROWS_AS(train_on(2, job), Diverged);
  const LatestCheckpoint latest = latest_valid(job.checkpoints);
  REQUIRE(latest.path.has_value());
  CHECK(latest.rejected.empty());
}

TEST_CASE("a stop saves all steps, even those after a checkpoint that is being written",
          "[trainer]") {
  const test::TempDir dir;
  TrainingJob job = wide_job(dir.path(), 50);
  job.policy = {CheckpointPolicy::Unit::Steps, 2, 2};
  std::atomic<bool> stop = false;
  const auto ends = test::on_ranks(2, [&](Communicator& comm) {
    TrainingJob mine = job;
    if (comm.rank() == 1) stop = true;
    return train(comm, std::move(mine), stop);
  });
  CHECK_FALSE(ends[0].finished);
  CHECK(ends[0].checkpoint == latest_valid(job.checkpoints).path);
}
