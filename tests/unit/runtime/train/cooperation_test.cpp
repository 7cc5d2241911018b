#include <set>

#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/unit/runtime/train/tiny_job.h"

using namespace dlflow;
using namespace dlflow::runtime;
using test::kGoOn;
using test::kStop;
using test::newest_bits;
using test::train_on;

namespace {

using Kind = CooperationOptions::Kind;

const CooperationOptions kLocal{.kind = Kind::LocalSgd, .every = 3};
const CooperationOptions kElastic{.kind = Kind::Elastic, .every = 2};
const CooperationOptions kGossip{.kind = Kind::Gossip, .every = 1};
const CooperationOptions kPairwise{.kind = Kind::Pairwise, .every = 1};
const CooperationOptions kServer{.kind = Kind::ParameterServer, .servers = 1, .staleness = 2};
const CooperationOptions kSynchronousServers{
    .kind = Kind::ParameterServer, .servers = 2, .staleness = 0};
const CooperationOptions kFreeServer{.kind = Kind::ParameterServer, .servers = 1, .staleness = {}};

/// 206 training samples in batches of 32: 7 steps an epoch, the last of 14 samples.
TrainingJob job_for(const std::filesystem::path& folder, const CooperationOptions& cooperation,
                    uint64_t epochs) {
  TrainingJob job = test::tiny_job(folder, epochs);
  job.settings.cooperation = cooperation;
  job.settings.precision = {cooperation.kind == Kind::Synchronous, 0};
  job.settings.validation = 49;
  job.settings.augmentation = {};
  return job;
}

bool fits(const CooperationOptions& cooperation, int ranks) {
  return cooperation.kind != Kind::ParameterServer || cooperation.servers < ranks;
}

}  // namespace

TEST_CASE("every way to cooperate learns, and reports its results", "[cooperation]") {
  const auto cooperation =
      GENERATE(kLocal, kElastic, kGossip, kPairwise, kServer, kSynchronousServers, kFreeServer);
  const int ranks = GENERATE(1, 2, 3, 4, 5);
  if (!fits(cooperation, ranks)) return;
  const test::TempDir dir;
  const auto ends = train_on(ranks, job_for(dir.path(), cooperation, 8));
  CHECK(ends[0].finished);
  CHECK(ends[0].summary.at("accuracy") > 0.9);
  CHECK(ends[0].summary.at("ranks") == ranks);
  CHECK(ends[0].summary.at("steps") == 8 * 7);
  for (const TrainingEnd& end : ends) {  // all have evaluated the same weights
    CHECK(end.summary.at("accuracy") == ends[0].summary.at("accuracy"));
    CHECK(end.summary.at("loss") == ends[0].summary.at("loss"));
  }
  const CheckpointInfo info = read_checkpoint_info(ends[0].checkpoint);
  CHECK(info.metrics.at("accuracy") == ends[0].summary.at("accuracy"));
  CHECK(info.samples == 8 * 206);
}

TEST_CASE("ranks without samples in the last step of an epoch keep pace", "[cooperation]") {
  const auto cooperation =
      GENERATE(kLocal, kGossip, kPairwise, kServer, kSynchronousServers, kFreeServer);
  const test::TempDir dir;
  TrainingJob job = job_for(dir.path(), cooperation, 3);
  job.settings.validation = 255 - 6 * 32 - 1;  // the seventh step has one sample
  CHECK(train_on(5, job)[0].finished);
}

TEST_CASE("without staleness or between averages of one step, training is synchronous",
          "[cooperation]") {
  const int workers = GENERATE(1, 2, 3);
  LastBatch last_batch = LastBatch::Keep;
  const auto loss_of = [&](const CooperationOptions& cooperation, int ranks) {
    const test::TempDir dir;
    TrainingJob job = job_for(dir.path(), cooperation, 4);
    job.settings.precision = {false, 0};
    job.settings.last_batch = last_batch;
    return train_on(ranks, job)[0].summary.at("loss").get<double>();
  };
  CHECK(loss_of(kSynchronousServers, workers + 2) == Approx(loss_of({}, workers)).epsilon(1e-3));
  last_batch = LastBatch::Drop;  // averaging would divide it differently
  if (32 % workers == 0) {       // otherwise the mean is over shares of other sizes
    CHECK(loss_of({.kind = Kind::LocalSgd, .every = 1}, workers) ==
          Approx(loss_of({}, workers)).epsilon(1e-3));
  }
}

TEST_CASE("with one worker, every way to cooperate trains like that worker alone",
          "[cooperation]") {
  const auto kind = GENERATE(OptimizerOptions::Kind::Sgd, OptimizerOptions::Kind::AdamW);
  const size_t accumulate = GENERATE(size_t(1), size_t(2));
  const auto bits_of = [&](const CooperationOptions& cooperation, int ranks) {
    const test::TempDir dir;
    TrainingJob job = job_for(dir.path(), cooperation, 2);
    job.settings.precision = {false, 0};
    job.settings.update.optimizer.kind = kind;
    job.settings.update.accumulate = accumulate;
    train_on(ranks, job, kStop);  // and continues
    train_on(ranks, job);
    return newest_bits(dir.path());
  };
  const std::string plain = bits_of({}, 1);
  CHECK(bits_of(kLocal, 1) == plain);
  CHECK(bits_of(kGossip, 1) == plain);
  CHECK(bits_of(kPairwise, 1) == plain);
  CHECK(bits_of(kServer, 2) == plain);
  CHECK(bits_of(kSynchronousServers, 3) == plain);
  CHECK(bits_of(kFreeServer, 2) == plain);
}

TEST_CASE("a run that stops and continues ends with the same bits in deterministic ways",
          "[cooperation]") {
  const auto cooperation = GENERATE(kLocal, kSynchronousServers);
  const test::TempDir whole, parts;
  train_on(3, job_for(whole.path(), cooperation, 3));
  const TrainingJob job = job_for(parts.path(), cooperation, 3);
  std::set<std::filesystem::path> stops;
  for (int i = 0; i < 3; ++i) {
    const TrainingEnd end = train_on(3, job, kStop)[0];
    CHECK_FALSE(end.finished);
    stops.insert(end.checkpoint);
  }
  CHECK(stops.size() == 3);  // each run continued
  CHECK(train_on(3, job)[0].finished);
  CHECK(newest_bits(parts.path()) == newest_bits(whole.path()));
}

TEST_CASE("a step without samples counts as an update", "[cooperation]") {
  const test::TempDir whole, parts;
  const auto job_in = [](const test::TempDir& dir) {
    TrainingJob job = job_for(dir.path(), kLocal, 2);
    job.settings.update.optimizer.kind = OptimizerOptions::Kind::AdamW;
    job.settings.lr = 0.005;
    job.settings.validation = 255 - (2 * 32 + 1);  // one sample for five ranks in the last step
    return job;
  };
  train_on(5, job_in(whole));
  CHECK_FALSE(train_on(5, job_in(parts), kStop)[0].finished);
  CHECK(train_on(5, job_in(parts))[0].finished);
  CHECK(newest_bits(parts.path()) == newest_bits(whole.path()));
}

TEST_CASE("every way to cooperate can be continued, even on other ranks or in another way",
          "[cooperation]") {
  const auto cooperation = GENERATE(kLocal, kGossip, kPairwise, kServer, kFreeServer);
  const test::TempDir dir;
  for (const int ranks : {2, 5, 3}) {
    CHECK_FALSE(train_on(ranks, job_for(dir.path(), cooperation, 8), kStop)[0].finished);
  }
  CHECK_FALSE(train_on(2, job_for(dir.path(), kGossip, 8), kStop)[0].finished);
  const TrainingEnd end = train_on(4, job_for(dir.path(), cooperation, 8))[0];
  CHECK(end.finished);
  CHECK(end.summary.at("accuracy") > 0.9);
}

TEST_CASE("with servers, the loss is the mean over samples with any number of workers",
          "[cooperation]") {
  const auto loss_on = [](const CooperationOptions& cooperation, int ranks) {
    const test::TempDir dir;
    TrainingJob job = job_for(dir.path(), cooperation, 1);
    job.settings.validation = 0;
    return train_on(ranks, job)[0].summary.at("loss").get<double>();
  };
  const double one = loss_on(kSynchronousServers, 3);
  CHECK(loss_on(kSynchronousServers, 6) == Approx(one).epsilon(0.2));  // the samples differ
}

TEST_CASE("a request to stop on one rank stops all", "[cooperation]") {
  const auto cooperation =
      GENERATE(kLocal, kGossip, kPairwise, kServer, kSynchronousServers, kFreeServer);
  const test::TempDir dir;
  const TrainingJob job = job_for(dir.path(), cooperation, 1000);
  const int asked = GENERATE(0, 1, 3);  // the last rank is a server if there are any
  ThreadGroup group(4, std::chrono::seconds(60));
  const auto ends = test::on_ranks(group, 4, [&](Communicator& comm) {
    return train(comm, job, comm.rank() == asked ? kStop : kGoOn);
  });
  for (const TrainingEnd& end : ends) CHECK_FALSE(end.finished);
  CHECK(list_checkpoints(job.checkpoints).size() == 1);
}

TEST_CASE("checkpoints are saved after the policy's number of steps", "[cooperation]") {
  const auto cooperation = GENERATE(kLocal, kGossip, kPairwise, kServer);
  const test::TempDir dir;
  TrainingJob job = job_for(dir.path(), cooperation, 2);
  job.policy = {CheckpointPolicy::Unit::Steps, 5, 100};
  train_on(3, job);
  std::vector<std::string> names;
  for (const auto& path : list_checkpoints(job.checkpoints)) names.push_back(path.filename());
  CHECK(names == std::vector<std::string>{"step-000005", "step-000010", "step-000014"});
}

TEST_CASE("a NaN loss stops every rank in all ways to cooperate", "[cooperation]") {
  const auto cooperation =
      GENERATE(kLocal, kGossip, kPairwise, kServer, kSynchronousServers, kFreeServer);
  const test::TempDir dir;
  TrainingJob job = job_for(dir.path(), cooperation, 3);
  job.settings.lr = 1e30;
  job.settings.warmup_epochs = 0;
  ThreadGroup group(4, std::chrono::seconds(60));
  const auto messages = test::on_ranks(group, 4, [&](Communicator& comm) -> std::string {
    try {
      train(comm, job, kGoOn);
    } catch (const Diverged& e) {
      return e.what();
    }
    return "finished";
  });
  for (const std::string& message : messages) CHECK(message == messages[0]);
  CHECK_THAT(messages[0], Catch::Matches("loss is (NaN|infinite) at step [0-9]+ \\(ranks? .*"));
}

TEST_CASE("ranks that cooperate in different ways do not start", "[cooperation]") {
  const test::TempDir dir;
  const auto messages = test::on_ranks(2, [&](Communicator& comm) {
    return test::error_of(
        [&] { train(comm, job_for(dir.path(), comm.rank() == 0 ? kLocal : kGossip, 1), kGoOn); });
  });
  CHECK_THAT(messages[1], Catch::StartsWith("the settings of rank 1 differs"));
}

TEST_CASE("a checkpoint names the way of cooperation", "[cooperation]") {
  const test::TempDir dir;
  const TrainingEnd end = train_on(3, job_for(dir.path(), kServer, 1))[0];
  CHECK(load_checkpoint(end.checkpoint).state.at("reduction") ==
        "parameter_server, servers: 1, staleness: 2, ranks: 3");
}
