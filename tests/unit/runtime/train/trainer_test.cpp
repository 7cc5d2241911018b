#include "runtime/train/trainer.h"

#include <omp.h>

#include <functional>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/nn/huge_buffer.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/settings_kept.h"
#include "runtime/train/split.h"
#include "runtime/train/training_state.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/unit/runtime/train/tiny_job.h"

using namespace dlflow;
using namespace dlflow::runtime;
using test::kGoOn;
using test::kStop;
using test::lines_of;
using test::newest_bits;
using test::tiny_job;
using test::train_on;
using test::trained;

namespace {

void change_nothing(TrainingJob&) {}

}  // namespace

TEST_CASE("training learns, and reports its results", "[trainer]") {
  const int ranks = GENERATE(1, 2);
  const test::TempDir dir;
  const std::vector<TrainingEnd> ends = train_on(ranks, tiny_job(dir.path(), 6));
  CHECK(ends[0].finished);
  CHECK(ends[0].summary.at("accuracy") > 0.9);
  CHECK(ends[0].summary.at("ranks") == ranks);
  CHECK(ends[0].summary.at("epochs") == 6);
  CHECK(ends[0].summary.at("steps") == 6 * 7);

  const CheckpointInfo info = read_checkpoint_info(ends[0].checkpoint);
  CHECK(info.metrics.at("accuracy") == ends[0].summary.at("accuracy"));
  CHECK(info.epoch == 6);
  CHECK(info.samples == 6 * 205);
  CHECK(info.model == test::kTinyModel);
  CHECK(list_checkpoints(dir.path() / "checkpoints").size() == 2);

  const std::vector<Json> lines = lines_of(dir.path() / "metrics.jsonl");
  CHECK(lines.back().at("progress") == 1.0);
  CHECK(lines.back().at("epoch") == 6);
  CHECK(lines.back().at("accuracy") == ends[0].summary.at("accuracy"));
}

TEST_CASE("a checkpoint evaluates to the accuracy that training reported", "[trainer]") {
  const test::TempDir dir;
  const TrainingJob job = tiny_job(dir.path(), 2);
  const TrainingEnd end = train_on(2, job)[0];
  const Checkpoint checkpoint = load_checkpoint(end.checkpoint);
  const auto results = test::on_ranks(3, [&](Communicator& comm) {
    const Dataset held_out =
        split_off_validation(comm, job.data, *job.settings.validation, job.settings.seed)
            .validation;
    NetworkSet networks(job.model, 7, Network::Mode::Inference);
    HugeBuffer weights(networks.layout()->size());
    load_weights(checkpoint, *networks.layout(), weights.floats());
    return evaluate(comm, job.model, inference_with(networks, weights.floats()),
                    {held_out, training_state_of(checkpoint).normalization, 7});
  });
  for (const Evaluation& result : results) {
    CHECK(result.accuracy == end.summary.at("accuracy"));
    CHECK(result.loss == Approx(end.summary.at("loss").get<double>()).epsilon(1e-5));
  }
}

TEST_CASE("the weights have the same bits on any number of ranks, with shared memory or messages",
          "[trainer][exact]") {
  struct Ranks {
    int count, threads;
  };
  const auto bits_on = [](Ranks ranks, int ranks_per_node) {
    const test::TempDir dir;
    const TrainingJob job = tiny_job(dir.path(), 2);
    ThreadGroup group(ranks.count, std::chrono::seconds(60), ranks_per_node);
    const auto ends = test::on_ranks(group, ranks.count, [&](Communicator& comm) {
      omp_set_num_threads(ranks.threads);
      return train(comm, job, kGoOn).summary;
    });
    return newest_bits(dir.path()) + ends[0].at("accuracy").dump() + ends[0].at("loss").dump();
  };
  const Ranks ranks =
      GENERATE(Ranks{2, 1}, Ranks{3, 1}, Ranks{4, 1}, Ranks{8, 1}, Ranks{9, 1}, Ranks{2, 2});
  const std::string alone = bits_on({1, ranks.threads}, 0);
  CHECK(bits_on(ranks, 0) == alone);  // shared memory
  CHECK(bits_on(ranks, 2) == alone);  // messages
}

TEST_CASE(
    "layers that draw random numbers, transposed and dilated convolutions, attention and tied "
    "weights give the same bits on any number of ranks",
    "[trainer][exact]") {
  const auto result_on = [](int ranks, const std::string& model, bool tokens) {
    const auto change = [&](TrainingJob& job) {
      job.model = parse_model("name: m\n" + model, "m.yaml");
      if (tokens) job.data = test::tiny_text(255);
      job.settings.augmentation.flip = !tokens;
    };
    return trained(ranks, 2, 2, change).result();
  };
  const std::string maps =
      "input: [1, 8, 8]\nlayers:\n"
      "- conv2d: {name: a, channels: 8, kernel: 3, padding: 1, bias: false}\n- relu6\n"
      "- conv2d: {channels: 8, kernel: 3, padding: 1, groups: 8}\n- group_norm: {groups: 2}\n"
      "- stochastic_depth: {rate: 0.2}\n- concat: {from: [a, stochastic_depth1]}\n"
      "- dropout: {rate: 0.3}\n- flatten\n- linear: {features: 3}\n";
  const std::string more_maps =
      "input: [1, 8, 8]\nlayers:\n"
      "- conv2d: {channels: 8, kernel: [3, 2], stride: [1, 2], padding: 1, dilation: 2}\n"
      "- leaky_relu: {slope: 0.1}\n- upsample: {scale: 2}\n"
      "- conv_transpose2d: {channels: 6, kernel: 3, stride: 2, padding: 1}\n- silu\n"
      "- adaptive_avg_pool: {size: [3, 2]}\n- flatten\n- linear: {features: 8}\n- rms_norm\n"
      "- softmax\n- linear: {features: 3}\n";
  const std::string text =
      "input: [12]\nloss: next_token\nlayers:\n"
      "- embedding: {name: t, vocabulary: 7, features: 8}\n- positions\n- layer_norm\n"
      "- linear: {features: 24}\n- attention: {heads: 2}\n- linear: {features: 8}\n"
      "- dropout: {rate: 0.1}\n- add: {from: positions1}\n"
      "- linear: {features: 7, tied: t, bias: false}\n";
  const int ranks = GENERATE(2, 3);
  CHECK(result_on(ranks, maps, false) == result_on(1, maps, false));
  CHECK(result_on(ranks, more_maps, false) == result_on(1, more_maps, false));
  CHECK(result_on(ranks, text, true) == result_on(1, text, true));
}

TEST_CASE("augmentation of tokens is refused", "[trainer]") {
  const test::TempDir dir;
  TrainingJob job = tiny_job(dir.path(), 1);  // with augment: [flip]
  job.data = test::tiny_text(255);
  job.model = parse_model(
      "name: m\ninput: [12]\nloss: next_token\nlayers:\n"
      "- embedding: {name: t, vocabulary: 7, features: 8}\n- linear: {features: 7}\n",
      "m.yaml");
  ThreadGroup group(1);
  CHECK_THROWS_WITH(train(group.communicator(0), job, kGoOn),
                    "with: 'augment' changes pictures; model 'm' reads tokens");
}

TEST_CASE("large linear layers have the same bits on any number of ranks", "[trainer][exact]") {
  const auto widen = [](TrainingJob& job) {
    job.settings.validation = 58;  // the last batch of an epoch has 5 samples for 8 leaves
    job.model = parse_model(
        "name: wide\ninput: [1, 8, 8]\nlayers:\n  - conv2d: {name: conv, channels: 16, kernel: 3}\n"
        "  - relu\n  - flatten\n  - linear: {name: a, features: 64}\n  - relu\n"
        "  - linear: {name: b, features: 128}\n  - relu\n  - linear: {name: c, features: 3}\n",
        "wide.yaml");
  };
  const test::Trained alone = trained(1, 0, 2, widen);
  CHECK(alone.summary.at("accuracy") > 0.5);
  const int ranks = GENERATE(2, 3, 4, 8, 9);
  for (const int ranks_per_node : {0, 2}) {  // shared memory, messages
    const test::Trained there = trained(ranks, ranks_per_node, 2, widen);
    CHECK(there.result() == alone.result());
    if (ranks == 9) continue;  // a rank without leaves does not measure the noise
    CHECK(there.lines.back().at("noise_scale") == alone.lines.back().at("noise_scale"));
  }
}

TEST_CASE("priority changes no bit, and 16 bits on the wire hardly change the result",
          "[trainer][exact]") {
  const auto train_as = [](int ranks, const GradientTravel& travel, bool exact) {
    const auto change = [&](TrainingJob& job) {
      job.settings.gradients = travel;
      job.settings.precision = {exact, exact ? size_t(8) : size_t(0)};
    };
    const test::Trained end = trained(ranks, 1, 3, change);  // each rank on a node of its own
    return std::pair(end.bits, end.summary.at("loss").get<double>());
  };
  const int ranks = GENERATE(2, 3, 4);
  const GradientTravel off{DataType::Float32, false}, on{DataType::Float32, true};
  for (const bool exact : {true, false}) {
    CHECK(train_as(ranks, on, exact).first == train_as(ranks, off, exact).first);
  }
  const auto [bits, loss] = train_as(ranks, on, false);
  for (const DataType wire : {DataType::Float16, DataType::BFloat16}) {
    const auto [half_bits, half_loss] = train_as(ranks, {wire, true}, false);
    CHECK(half_bits != bits);
    CHECK(half_loss == Approx(loss).epsilon(0.05));
  }
}

TEST_CASE("batch normalisation over the global batch has the same bits on any number of ranks",
          "[trainer][exact]") {
  const auto result_on = [](int ranks, int ranks_per_node, bool joint = true) {
    const auto change = [=](TrainingJob& job) {
      job.settings.joint_batch_norm = joint;
      job.settings.validation = 58;  // the last batch of an epoch has 5 samples for 8 leaves
    };
    return trained(ranks, ranks_per_node, 2, change).result();
  };
  const std::string alone = result_on(1, 0);
  CHECK(alone != result_on(1, 0, false));
  const int ranks = GENERATE(2, 3, 4, 8, 9);
  CHECK(result_on(ranks, 0) == alone);  // shared memory
  CHECK(result_on(ranks, 2) == alone);  // messages
}

TEST_CASE("batch normalisation over the global batch allows ranks without samples",
          "[trainer][exact]") {
  // More gradients than fit into a bucket: 1 MiB between nodes, 8 MiB on one.
  const auto [width, ranks_per_node] = GENERATE(table<int, int>({{600, 1}, {1600, 0}}));
  const auto widen = [width = width](TrainingJob& job) {
    const std::string wide = "  - linear: {features: " + std::to_string(width) + "}\n";
    job.model =
        parse_model("name: wide\ninput: [64]\nlayers:\n" + wide + "  - batch_norm\n  - relu\n" +
                        wide + "  - batch_norm\n  - linear: {features: 3}\n",
                    "wide.yaml");
    job.settings.joint_batch_norm = true;
    job.settings.precision.leaves = 4;
    job.settings.validation = 255 - 66;  // the last batch of an epoch has 2 samples for 4 leaves
  };
  const std::string alone = trained(1, 0, 2, widen).bits;
  CHECK(trained(3, ranks_per_node, 2, widen).bits == alone);
  CHECK(trained(5, ranks_per_node, 2, widen).bits == alone);  // one rank has no leaves
}

TEST_CASE("checkpoints keep counting if a step gets more samples", "[trainer]") {
  const test::TempDir dir;
  TrainingJob job = tiny_job(dir.path(), 2);
  job.settings.batch = 8;
  const CheckpointInfo first = read_checkpoint_info(train_on(1, job)[0].checkpoint);
  job.settings.batch = 64;
  job.settings.epochs = 4;
  const TrainingEnd end = train_on(2, job)[0];
  const CheckpointInfo last = verify_checkpoint(end.checkpoint);
  CHECK(last.epoch == 4);
  CHECK(last.step == first.step + 2 * 4);  // 205 samples
  CHECK(latest_valid(job.checkpoints).path == end.checkpoint);
}

TEST_CASE("without a validation set, an epoch's loss includes the steps before a stop",
          "[trainer]") {
  const test::TempDir whole, parts;
  TrainingJob job = tiny_job(whole.path(), 1);
  job.settings.validation = 0;
  const double loss = train_on(2, job)[0].summary.at("loss").get<double>();
  job.checkpoints = parts.path() / "checkpoints";
  for (int i = 0; i < 3; ++i) CHECK_FALSE(train_on(2, job, kStop)[0].finished);
  CHECK(train_on(2, job)[0].summary.at("loss").get<double>() == loss);
}

TEST_CASE("each sample has the same weight in an epoch's loss, even in a smaller last step",
          "[trainer]") {
  MeanLoss loss;
  loss.add(1, 32);
  loss.add(1, 32);
  loss.add(4, 1);
  CHECK(loss.mean() == Approx(68.0 / 65));

  // Almost without a learning rate, the loss is that of all samples with any division into steps.
  const auto loss_with = [](size_t batch) {
    const auto change = [=](TrainingJob& job) {
      job.model = parse_model("name: m\ninput: [64]\nlayers:\n  - linear: {name: a, features: 3}\n",
                              "m.yaml");
      job.settings.batch = batch;
      job.settings.validation = 0;
      job.settings.lr = 1e-30;
    };
    return trained(2, 0, 1, change).summary.at("loss").get<double>();
  };
  CHECK(loss_with(127) == Approx(loss_with(255)).epsilon(1e-5));  // the last step has one sample
}

TEST_CASE("a batch larger than the data has all samples, and takes no more memory", "[trainer]") {
  const auto bits_with = [](size_t batch) {
    const auto change = [=](TrainingJob& job) {
      job.settings.precision.leaves = 1;
      job.settings.batch = batch;
    };
    return trained(2, 0, 2, change).bits;
  };
  CHECK(bits_with(4000000000) == bits_with(205));
}

TEST_CASE("batch normalisation over the global batch does not depend on the leaves", "[trainer]") {
  const auto loss_with = [](size_t leaves) {
    const auto change = [=](TrainingJob& job) {
      job.settings.joint_batch_norm = true;
      job.settings.precision.leaves = leaves;
    };
    return trained(2, 0, 1, change).summary.at("loss").get<double>();
  };
  const double whole = loss_with(1);
  CHECK(loss_with(4) == Approx(whole).epsilon(1e-4));  // equal except for rounding
  CHECK(loss_with(8) == Approx(whole).epsilon(1e-4));
}

TEST_CASE("a run that stops goes on with the same bits, even on another number of ranks",
          "[trainer][exact]") {
  const std::string whole = trained(2, 0, 3, change_nothing).bits;
  for (const auto& ranks : {std::vector<int>(10, 1), std::vector<int>(10, 2),
                            std::vector<int>{1, 3, 8, 2, 4, 1, 8, 3, 3}}) {
    CHECK(test::bits_in_parts(ranks, 0, 3, change_nothing) == whole);
  }
}

TEST_CASE("a setting that changes the bits of a continued run is named", "[trainer][exact]") {
  TrainingState saved;
  saved.global_batch = 128;
  saved.reduction = "exact, leaves: 8";
  saved.arithmetic = "dlflow 1, avx2";
  TrainingState now = saved;
  now.position = {3, 4};
  CHECK(changes_of_bits(saved, now).empty());
  now.global_batch = 64;
  saved.epochs = 2;
  now.epochs = 4;
  now.reduction = "exact, leaves: 4";
  now.arithmetic = "dlflow 1, avx512_core";
  CHECK(changes_of_bits(saved, now) ==
        std::vector<std::string>{"the batch was 128, now it is 64",
                                 "the learning rate followed epochs: 2, now it follows 4",
                                 "the reduction was exact, leaves: 8, now it is exact, leaves: 4",
                                 "it was computed by dlflow 1, avx2, now by dlflow 1, "
                                 "avx512_core"});

  const test::TempDir dir;
  const TrainingEnd end = train_on(2, tiny_job(dir.path(), 1))[0];
  const TrainingState state = training_state_of(load_checkpoint(end.checkpoint));
  CHECK(state.reduction == "exact, leaves: 8");
  CHECK_THAT(state.arithmetic, Catch::Contains("oneDNN "));
}

TEST_CASE("in fast mode the number of ranks changes the bits, but hardly the result",
          "[trainer][exact]") {
  const auto hurry = [](TrainingJob& job) { job.settings.precision = {false, 0}; };
  const test::Trained one = trained(1, 0, 6, hurry), two = trained(2, 0, 6, hurry);
  CHECK(one.bits != two.bits);
  CHECK(two.summary.at("accuracy") > 0.9);
  CHECK(trained(2, 0, 6, hurry).bits == two.bits);
}

TEST_CASE("checkpoints follow the policy", "[trainer]") {
  const test::TempDir dir;
  TrainingJob job = tiny_job(dir.path(), 2);
  job.policy = {CheckpointPolicy::Unit::Steps, 3, 100};
  train_on(2, job);
  std::vector<std::string> names;
  for (const auto& path : list_checkpoints(job.checkpoints)) names.push_back(path.filename());
  CHECK(names == std::vector<std::string>{"step-000003", "step-000006", "step-000009",
                                          "step-000012", "step-000014"});
}

TEST_CASE("a finished run that is started again changes nothing", "[trainer]") {
  const test::TempDir dir;
  const TrainingEnd first = train_on(2, tiny_job(dir.path(), 1))[0];
  const std::string bits = newest_bits(dir.path());
  const TrainingEnd again = train_on(2, tiny_job(dir.path(), 1))[0];
  CHECK(again.finished);
  CHECK(again.checkpoint == first.checkpoint);
  CHECK(again.summary.at("accuracy") == first.summary.at("accuracy"));
  CHECK(newest_bits(dir.path()) == bits);
}

TEST_CASE("a NaN loss stops every rank and names its origin", "[trainer]") {
  const test::TempDir dir;
  TrainingJob job = tiny_job(dir.path(), 3);
  job.settings.lr = 1e30;
  job.settings.warmup_epochs = 0;
  const auto messages = test::on_ranks(2, [&](Communicator& comm) -> std::string {
    try {
      train(comm, job, kGoOn);
    } catch (const Diverged& e) {
      return e.what();
    }
    return "finished";
  });
  CHECK(messages[0] == messages[1]);
  CHECK_THAT(messages[0],
             Catch::Matches("loss is (NaN|infinite) at step [0-9]+ \\(ranks? [01, ]+\\), "
                            "first in layer '[a-z0-9]+'; a lower lr .*"));
}

TEST_CASE("a weight that overflows is named with its step", "[trainer]") {
  const test::TempDir dir;
  TrainingJob job = tiny_job(dir.path(), 3);
  job.settings.update.optimizer.weight_decay = 1e38;
  job.settings.lr = 1e6;
  CHECK_THROWS_MATCHES(
      train_on(2, job), Diverged,
      Catch::Message("fc.bias is NaN or infinite at step 1; a lower lr or a longer "
                     "warm-up may help"));
}

TEST_CASE("an overflowing gradient is named with the layer where it first appeared", "[trainer]") {
  const test::TempDir dir;
  TrainingJob job = tiny_job(dir.path(), 3);
  test::overflow_gradient_of_b(job);

  CHECK_THROWS_MATCHES(train_on(2, job), Diverged,
                       Catch::Message("the gradient of b.weight is NaN or infinite at step 2; a "
                                      "lower lr or a longer warm-up may help"));
  CHECK(list_checkpoints(job.checkpoints).back().filename() == "step-000002");
}

TEST_CASE("ranks with different seeds do not start", "[trainer]") {
  const test::TempDir dir;
  const auto messages = test::on_ranks(2, [&](Communicator& comm) {
    TrainingJob job = tiny_job(dir.path(), 1);
    job.settings.seed = uint64_t(comm.rank());
    return test::error_of([&] { train(comm, job, kGoOn); });
  });
  CHECK_THAT(messages[1], Catch::StartsWith("the seed of rank 1 differs from that of rank 0"));
}

TEST_CASE("checkpoints of another run are refused", "[trainer]") {
  const test::TempDir dir;
  train_on(1, tiny_job(dir.path(), 1));
  TrainingJob job = tiny_job(dir.path(), 2);
  job.settings.seed = 9;
  CHECK_THROWS_WITH(train_on(1, job), Catch::Contains("is of a run with seed 0"));
}

TEST_CASE("a continued run must keep the settings that influence the result", "[trainer]") {
  using Change = std::pair<std::string, std::function<void(TrainingJob&)>>;
  const auto [message, change] = GENERATE(values<Change>({
      {"lr 0.05, not 0.1", [](TrainingJob& job) { job.settings.lr = 0.1; }},
      {"augment.flip true, not false",
       [](TrainingJob& job) { job.settings.augmentation.flip = false; }},
      {"momentum 0.9, not 0.8; weight_decay 0.0, not 0.5",
       [](TrainingJob& job) {
         job.settings.update.optimizer.momentum = 0.8;
         job.settings.update.optimizer.weight_decay = 0.5;
       }},
      {"schedule cosine, not constant",
       [](TrainingJob& job) { job.settings.schedule = Schedule::Course::Constant; }},
      {"last_batch keep, not drop",
       [](TrainingJob& job) { job.settings.last_batch = LastBatch::Drop; }},
      {"validation 50, not 40", [](TrainingJob& job) { job.settings.validation = 40; }},
      {"other training data",
       [](TrainingJob& job) { test::set_label(job.data, 7, job.data.labels[7] ^ 1); }},
  }));
  const test::TempDir dir;
  train_on(1, tiny_job(dir.path(), 1));
  const std::string bits = newest_bits(dir.path());
  TrainingJob job = tiny_job(dir.path(), 2);
  change(job);
  CHECK_THROWS_WITH(train_on(2, job), Catch::Contains("step-000007 is of a run with " + message) &&
                                          Catch::Contains("; continue with its settings, or train "
                                                          "into another folder of checkpoints"));
  CHECK(newest_bits(dir.path()) == bits);
}

TEST_CASE("a checkpoint from before settings were saved can be continued", "[trainer]") {
  const test::TempDir dir;
  const TrainingJob job = tiny_job(dir.path(), 2);
  const Checkpoint first = load_checkpoint(train_on(1, job, kStop)[0].checkpoint);
  CheckpointContent content{first.info, first.model.tensors(), first.optimizer.tensors(),
                            first.state};
  content.info.step = 2;
  for (const char* key : {"settings", "data", "epochs"}) CHECK(content.state.erase(key) == 1);
  save_checkpoint(job.checkpoints, content, 5);
  CHECK(train_on(1, job)[0].finished);
}

TEST_CASE("a setting added by a later version does not prevent continuing", "[trainer]") {
  CHECK(changed_settings({{"lr", 0.1}}, {{"lr", 0.1}, {"new", 1}}).empty());
  CHECK(changed_settings({{"lr", 0.1}, {"gone", 1}}, {{"lr", 0.1}}) ==
        std::vector<std::string>{"gone 1, which this version does not support"});
}

TEST_CASE("data that does not fit the model is refused", "[trainer]") {
  const test::TempDir dir;
  TrainingJob job = tiny_job(dir.path(), 1);
  test::set_label(job.data, 3, 7);
  CHECK_THROWS_WITH(train_on(1, job),
                    Catch::Contains("has 3 classes") && Catch::Contains("the label 7 (sample 3)"));
  job = tiny_job(dir.path(), 1);
  job.data.shape = {1, 4, 16};
  CHECK_THROWS_WITH(train_on(1, job), Catch::Contains("takes (B,1,8,8)"));
}
