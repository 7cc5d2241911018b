// Tests the guarantees of training with every optimizer.
#include <map>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/train/network_set.h"
#include "runtime/train/trainer.h"
#include "runtime/train/training_state.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/train/tiny_job.h"

using namespace dlflow;
using namespace dlflow::runtime;
using Kind = OptimizerOptions::Kind;
using test::kStop;
using test::tiny_job;
using test::train_on;
using test::trained;

namespace {

/// Changes a tiny_job() to `kind`, and then by `change`.
test::JobChange with(
    Kind kind, const test::JobChange& change = [](TrainingJob&) {}) {
  return [=](TrainingJob& job) {
    OptimizerOptions& options = job.settings.update.optimizer;
    options.kind = kind;
    options.weight_decay = 0.01;
    options.trust = 0.02;
    if (kind != Kind::Sgd) job.settings.lr = kind == Kind::Lars ? 1 : 0.02;
    change(job);
  };
}

TrainingJob job_with(Kind kind, const std::filesystem::path& folder, uint64_t epochs) {
  TrainingJob job = tiny_job(folder, epochs);
  with(kind)(job);
  return job;
}

void shard(TrainingJob& job) { job.settings.update.shard_optimizer = true; }

}  // namespace

TEST_CASE("each optimizer trains", "[trainer][optim]") {
  const Kind kind = GENERATE(from_range(OptimizerOptions::kKinds));
  CHECK(trained(2, 0, 6, with(kind)).summary.at("accuracy") >= 0.9);
}

TEST_CASE("each optimizer's weights have the same bits on any number of ranks",
          "[trainer][optim][exact]") {
  const Kind kind = GENERATE(from_range(OptimizerOptions::kKinds));
  const std::string alone = trained(1, 0, 1, with(kind)).bits;
  for (const int ranks : {2, 3, 4, 8}) {
    CHECK(trained(ranks, 0, 1, with(kind)).bits == alone);  // shared memory
    CHECK(trained(ranks, 2, 1, with(kind)).bits == alone);  // messages
  }
}

TEST_CASE("each optimizer continues with the same bits, even on other ranks",
          "[trainer][optim][exact]") {
  const Kind kind = GENERATE(from_range(OptimizerOptions::kKinds));
  CHECK(test::bits_in_parts({1, 3, 8, 2, 3}, 0, 2, with(kind)) ==
        trained(2, 0, 2, with(kind)).bits);
}

TEST_CASE("a checkpoint names the optimizer's state for each weight", "[trainer][optim]") {
  const test::TempDir dir;
  const TrainingEnd end = train_on(2, job_with(Kind::AdamW, dir.path(), 1))[0];
  const Checkpoint checkpoint = load_checkpoint(end.checkpoint);
  CHECK(checkpoint.optimizer.at("conv.weight.m").shape == std::vector<uint64_t>{8, 1, 3, 3});
  CHECK(checkpoint.optimizer.at("fc.bias.v").shape == std::vector<uint64_t>{3});
  CHECK(training_state_of(checkpoint).optimizer == "adamw");
  CHECK(training_state_of(checkpoint).updates == 7);
}

TEST_CASE("a checkpoint of another optimizer is refused", "[trainer][optim]") {
  const test::TempDir dir;
  train_on(1, job_with(Kind::Adam, dir.path(), 1));
  CHECK_THROWS_WITH(train_on(1, job_with(Kind::Sgd, dir.path(), 2)),
                    Catch::Contains("is of a run with the optimizer adam; continue with its "
                                    "settings, or train into another folder of checkpoints"));
}

TEST_CASE("a checkpoint from before other optimizers existed can be continued",
          "[trainer][optim]") {
  const test::TempDir dir;
  const TrainingJob job = job_with(Kind::Sgd, dir.path(), 2);
  const Checkpoint first = load_checkpoint(train_on(1, job, kStop)[0].checkpoint);
  CheckpointContent content{first.info, first.model.tensors(), first.optimizer.tensors(),
                            first.state};
  content.info.step = 2;
  content.state.erase("optimizer");
  content.state.erase("updates");
  save_checkpoint(job.checkpoints, content, 5);
  CHECK(train_on(1, job)[0].finished);
}

TEST_CASE("biases and batch normalisation do not decay if only weights do",
          "[trainer][optim][exact]") {
  const Kind kind = GENERATE(from_range(OptimizerOptions::kKinds));
  const auto weights_of = [&](int ranks, int ranks_per_node, double decay, bool vectors) {
    const test::TempDir dir;
    TrainingJob job = job_with(kind, dir.path(), 1);
    job.settings.batch = 1000;  // one step, whose gradients do not depend on decay
    job.settings.warmup_epochs = 0;
    job.settings.update.optimizer.weight_decay = decay;
    job.settings.update.decays_vectors = vectors;
    train_on(ranks, job, test::kGoOn, ranks_per_node);
    return test::newest_weights(job);
  };
  const auto none = weights_of(1, 0, 0, true), all = weights_of(1, 0, 0.5, true);
  const auto weights = weights_of(1, 0, 0.5, false);
  for (const char* name : {"conv.weight", "fc.weight"}) CHECK(weights.at(name) != none.at(name));
  for (const char* name : {"fc.bias", "bn.weight", "bn.bias"}) {
    INFO(name);
    CHECK(weights.at(name) == none.at(name));
  }
  CHECK(all.at("bn.weight") != none.at("bn.weight"));  // ones, whose decay exceeds any gradient
  CHECK(weights_of(3, 0, 0.5, false) == weights);      // one copy, in pieces
  CHECK(weights_of(3, 1, 0.5, false) == weights);      // replicas
}

TEST_CASE("clipping and shards of the state keep the bits on any number of ranks",
          "[trainer][optim][exact]") {
  const Kind kind = GENERATE(Kind::Sgd, Kind::AdamW, Kind::Lamb);
  const auto bits = [&](int ranks, int ranks_per_node, double clip_norm, bool shards) {
    const auto change = [=](TrainingJob& job) {
      if (clip_norm > 0) job.settings.update.clip_norm = clip_norm;
      job.settings.update.shard_optimizer = shards;
    };
    return trained(ranks, ranks_per_node, 1, with(kind, change)).bits;
  };
  const std::string plain = bits(1, 0, 0, false), clipped = bits(1, 0, 0.5, false);
  CHECK(plain != clipped);
  CHECK(bits(1, 0, 1e9, false) == plain);  // clips nothing
  for (const int ranks : {2, 3, 8}) {
    CHECK(bits(ranks, 0, 0.5, false) == clipped);  // one copy per node
    CHECK(bits(ranks, 2, 0.5, false) == clipped);  // a copy on each node
    CHECK(bits(ranks, 2, 0.5, true) == clipped);   // shards
    CHECK(bits(ranks, 2, 0, true) == plain);
  }
}

TEST_CASE("shards of the state are saved and restored, even on other ranks",
          "[trainer][optim][exact]") {
  // Each rank is on a node of its own.
  CHECK(test::bits_in_parts({3, 1, 8, 2, 4}, 1, 2, with(Kind::Adam, shard)) ==
        trained(1, 0, 2, with(Kind::Adam)).bits);
}

TEST_CASE("the memory for the optimizer's state on each rank is reported", "[trainer][optim]") {
  const auto bytes = [](int ranks, int ranks_per_node, const test::JobChange& change) {
    return trained(ranks, ranks_per_node, 1, change)
        .summary.at("optimizer_bytes_per_rank")
        .get<size_t>();
  };
  const test::JobChange whole = with(Kind::Adam), shards = with(Kind::Adam, shard);
  const size_t alone = bytes(1, 0, whole);
  const NetworkSet networks(parse_model(test::kTinyModel, "tiny.yaml"), 4, Network::Mode::Training);
  CHECK(alone == 2 * sizeof(float) * networks.layout()->trainable_size());
  CHECK(bytes(2, 0, whole) == alone / 2);  // one copy in the memory of the node
  CHECK(bytes(2, 1, whole) == alone);      // a copy on each node
  CHECK(bytes(2, 1, shards) < alone);
}

TEST_CASE("a NaN among gradients is named with any optimizer setting", "[trainer][optim]") {
  const Kind kind = GENERATE(Kind::Sgd, Kind::Lamb);
  const bool shards = GENERATE(false, true);
  const test::TempDir dir;
  TrainingJob job = job_with(kind, dir.path(), 3);
  job.settings.update.clip_norm = 1;
  job.settings.update.shard_optimizer = shards;
  test::overflow_gradient_of_b(job);
  CHECK_THROWS_MATCHES(train_on(2, job, test::kGoOn, 1), Diverged,
                       Catch::Message("the gradient of b.weight is NaN or infinite at step 2; a "
                                      "lower lr or a longer warm-up may help"));
}

TEST_CASE("accumulated batches give the bits of one large batch", "[trainer][optim][exact]") {
  const auto bits = [](size_t batch, size_t leaves, size_t accumulate, int ranks) {
    const auto change = [=](TrainingJob& job) {  // 205 samples: the last step is uneven
      job.settings.batch = batch;
      job.settings.precision.leaves = leaves;
      job.settings.update.accumulate = accumulate;
    };
    return trained(ranks, 2, 2, with(Kind::Lamb, change)).bits;
  };
  const std::string large = bits(48, 6, 1, 1);
  for (const int ranks : {1, 2, 3}) {
    CHECK(bits(16, 2, 3, ranks) == large);
    CHECK(bits(8, 1, 6, ranks) == large);
  }
  CHECK(bits(16, 2, 1, 1) != large);
}

TEST_CASE("accumulation in fast mode takes the steps of a large batch", "[trainer][optim]") {
  const auto summary = [](size_t batch, size_t accumulate) {
    const auto change = [=](TrainingJob& job) {
      job.model =
          parse_model("name: m\ninput: [64]\nlayers:\n  - linear: {features: 3}\n", "m.yaml");
      job.settings.batch = batch;
      job.settings.precision = {false, 0};
      job.settings.update.accumulate = accumulate;
    };
    return trained(2, 0, 4, with(Kind::Sgd, change)).summary;
  };
  const Json large = summary(48, 1), small = summary(16, 3);
  CHECK(small.at("steps") == large.at("steps"));
  CHECK(small.at("loss").get<double>() == Approx(large.at("loss").get<double>()).epsilon(1e-4));
}

TEST_CASE("the learning rate follows the batch, and labels may be smooth", "[trainer][optim]") {
  const auto bits = [](double lr, RateScaling scaling, size_t base_batch, double smoothing = 0) {
    const auto change = [=](TrainingJob& job) {  // batches of 32
      job.settings.lr = lr;
      job.settings.update.lr_scaling = scaling;
      job.settings.update.base_batch = base_batch;
      job.settings.label_smoothing = smoothing;
    };
    return trained(2, 0, 1, with(Kind::Sgd, change)).bits;
  };
  const std::string plain = bits(0.0625, RateScaling::None, 1);
  CHECK(bits(0.015625, RateScaling::Linear, 8) == plain);
  CHECK(bits(0.03125, RateScaling::Sqrt, 8) == plain);
  CHECK(bits(0.0625, RateScaling::None, 1, 0.1) != plain);
}

TEST_CASE("the gradient noise scale is logged per epoch, the same on any number of ranks",
          "[trainer][optim]") {
  const auto scales = [](int ranks, int ranks_per_node) {
    const auto change = [](TrainingJob& job) { job.settings.precision.leaves = 4; };
    std::vector<double> told;
    for (const Json& line : trained(ranks, ranks_per_node, 3, with(Kind::Sgd, change)).lines) {
      if (line.contains("accuracy") && line.contains("noise_scale")) {
        told.push_back(line.at("noise_scale"));
      }
    }
    return told;
  };
  const std::vector<double> alone = scales(1, 0);
  REQUIRE(alone.size() == 3);
  CHECK(alone[0] > 0);
  for (const int ranks : {2, 3, 4}) {
    for (const int per_node : {0, 2}) {
      const std::vector<double> shared = scales(ranks, per_node);
      REQUIRE(shared.size() == 3);
      for (size_t i = 0; i < 3; ++i) CHECK(shared[i] == Approx(alone[i]).epsilon(0.01).margin(1));
    }
  }
  CHECK(scales(5, 0).empty());  // ranks without leaves
}
