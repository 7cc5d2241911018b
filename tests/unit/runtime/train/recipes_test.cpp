#include <algorithm>
#include <map>
#include <set>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/nn/patterns.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/progress_rules.h"
#include "runtime/train/settings_kept.h"
#include "runtime/train/split.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/from_pytorch.h"
#include "tests/unit/runtime/train/tiny_job.h"

/// Frozen layers, weights to start from, groups of parameters, means of weights, the best epoch.
using namespace dlflow;
using namespace dlflow::runtime;
using Catch::Contains;
using test::kGoOn;
using test::kStop;
using test::lines_of;
using test::newest_bits;
using test::newest_weights;
using test::tensors_in;
using test::tiny_job;
using test::train_on;
using test::trained;

namespace {

constexpr const char* kTwoConvolutions = R"(name: two
input: [1, 8, 8]
layers:
  - conv2d: {name: conv1, channels: 16, kernel: 3, padding: 1}
  - batch_norm: {name: bn1}
  - relu
  - conv2d: {name: conv2, channels: 16, kernel: 1, stride: 2}
  - batch_norm: {name: bn2}
  - relu
  - flatten
  - linear: {name: fc, features: 3}
)";

/// The output of pytorch_recipes.py: the file beside this one, or a new one.
Json pytorch_recipes() {
  return test::from_pytorch("DLFLOW_PYTORCH_RECIPES", DLFLOW_PYTORCH_RECIPES);
}

/// Writes a safetensors file of tensors {NAME: {shape: …, values: …}}.
void write_tensors(const std::filesystem::path& file, const Json& json) {
  std::map<std::string, std::vector<float>> values;
  std::vector<TensorView> views;
  for (const auto& [name, tensor] : json.items()) {
    values[name] = tensor.at("values").get<std::vector<float>>();
    views.push_back(tensor_view<float>(name, tensor.at("shape").get<std::vector<uint64_t>>(),
                                       std::span<const float>(values[name])));
  }
  write_safetensors(file, views);
}

/// tiny_job() in a new folder.
TrainingJob job_below(const std::filesystem::path& folder, uint64_t epochs) {
  std::filesystem::create_directories(folder);
  return tiny_job(folder, epochs);
}

/// The file with weights of a finished training of kTinyModel.
std::filesystem::path trained_tiny(const std::filesystem::path& folder) {
  return train_on(1, job_below(folder / "before", 1))[0].checkpoint / "model.safetensors";
}

std::vector<double> accuracies_in(const std::vector<Json>& lines) {
  std::vector<double> accuracies;
  for (const Json& line : lines) {
    if (line.contains("accuracy")) accuracies.push_back(line.at("accuracy"));
  }
  return accuracies;
}

/// Starts `job` anew for each of its `steps`, on one rank and two in turn. Returns its summary.
Json train_step_by_step(const TrainingJob& job, uint64_t steps) {
  for (uint64_t step = 1; step < steps; ++step) {
    REQUIRE_FALSE(train_on(1 + int(step % 2), job, kStop)[0].finished);
  }
  const TrainingEnd end = train_on(2, job, kStop)[0];
  CHECK(end.finished);
  return end.summary;
}

std::string refusal(const TrainingJob& job) {
  ThreadGroup group(1);
  return test::error_of([&] { train(group.communicator(0), job, kGoOn); });
}

}  // namespace

TEST_CASE("frozen layers and groups of parameters end where those of PyTorch do", "[recipes]") {
  const Json expected = pytorch_recipes();
  const int ranks = GENERATE(1, 2);
  for (const Json& json : expected.at("cases")) {
    INFO(json.at("with").dump());
    const test::TempDir dir;
    write_tensors(dir.path() / "start.safetensors", expected.at("start"));
    Json with = {{"model", "m.yaml"},
                 {"data", "d"},
                 {"epochs", expected.at("steps")},
                 {"batch", 24},
                 {"schedule", "constant"},
                 {"validation", 0},
                 {"precision", {{"leaves", 1}}},
                 {"normalize", {{"mean", 0}, {"std", 1}}},
                 {"start_from", (dir.path() / "start.safetensors").string()}};
    with.update(json.at("with"));
    TrainingJob job = tiny_job(dir.path(), 1);
    job.settings = parse_train_settings(with);
    job.model = parse_model(kTwoConvolutions, "two.yaml");
    job.data = make_dataset({1, 8, 8}, 3, expected.at("images").get<std::vector<uint8_t>>(),
                            expected.at("labels").get<std::vector<uint32_t>>());
    train_on(ranks, job);
    const auto weights = newest_weights(job);
    for (const auto& [name, tensor] : json.at("end").items()) {
      INFO(name);
      const auto values = tensor.at("values").get<std::vector<float>>();
      REQUIRE(weights.at(name).size() == values.size());
      for (size_t i = 0; i < values.size(); ++i) {
        CHECK(double(weights.at(name)[i]) == Approx(double(values[i])).epsilon(0).margin(2e-5));
      }
    }
  }
}

TEST_CASE("frozen layers keep their bits, and a run with them is exact on any number of ranks",
          "[recipes][exact]") {
  const std::string frozen = GENERATE("conv", "bn", "fc");
  const bool joint = GENERATE(false, true);
  const double clip_norm = GENERATE(0.0, 0.5);
  const test::TempDir start;
  const std::filesystem::path file = trained_tiny(start.path());
  const auto before = tensors_in(Safetensors::open(file));
  const auto bits_on = [&](int ranks, int ranks_per_node) {
    const test::TempDir dir;
    TrainingJob job = tiny_job(dir.path(), 2);
    job.settings.start_from = file;
    job.settings.freeze = {frozen};
    job.settings.joint_batch_norm = joint;
    if (clip_norm > 0) job.settings.update.clip_norm = clip_norm;
    job.settings.update.optimizer.weight_decay = 0.1;
    job.settings.update.groups = {{"fc.*", 3, 0.2}};
    if (frozen == "fc") job.settings.update.groups = {{"conv.*", 3, 0.2}};
    train_on(ranks, job, kGoOn, ranks_per_node);
    for (const auto& [name, values] : newest_weights(job)) {
      INFO(name);
      CHECK((values == before.at(name)) == name.starts_with(frozen + "."));
    }
    const Checkpoint checkpoint = load_checkpoint(list_checkpoints(job.checkpoints).back());
    for (const TensorView& tensor : checkpoint.optimizer.tensors()) {
      CHECK_FALSE(tensor.name.starts_with(frozen + "."));
    }
    return newest_bits(dir.path());
  };
  const std::string alone = bits_on(1, 0);
  for (const int ranks : {2, 3}) {
    CHECK(bits_on(ranks, 0) == alone);  // shared memory
    CHECK(bits_on(ranks, 1) == alone);  // messages
  }
}

TEST_CASE("a fine-tuning that stops and goes on ends with the bits of one that did not",
          "[recipes][exact]") {
  const test::TempDir start, whole, parts;
  const auto job_in = [&](const std::filesystem::path& folder) {
    TrainingJob job = tiny_job(folder, 2);
    job.settings.start_from = start.path() / "start.safetensors";
    job.settings.freeze = {"conv", "bn"};
    job.settings.update.groups = {{"*.bias", 2, 0.1}};
    return job;
  };
  std::filesystem::copy_file(trained_tiny(start.path()), start.path() / "start.safetensors");
  train_on(2, job_in(whole.path()));
  TrainingJob job = job_in(parts.path());
  for (const int ranks : {1, 3, 2}) CHECK_FALSE(train_on(ranks, job, kStop)[0].finished);

  SECTION("with the same settings") {
    CHECK(train_on(2, job)[0].finished);
    CHECK(newest_bits(parts.path()) == newest_bits(whole.path()));
  }
  SECTION("but not with other settings") {
    job.settings.freeze = {"conv"};
    CHECK_THAT(refusal(job), Contains("freeze [\"conv\",\"bn\"], not [\"conv\"]"));
    job = job_in(parts.path());
    job.settings.update.groups[0].lr_multiplier = 3;
    CHECK_THAT(refusal(job), Contains("groups [[\"*.bias\",2.0,0.1]], not"));
    job = job_in(parts.path());
    job.settings.start_from = train_on(1, job_below(start.path() / "more", 2))[0].checkpoint;
    CHECK_THAT(refusal(job), Contains("start_from ") && Contains(", not "));
  }
}

TEST_CASE("a network for other classes starts from the layers that fit, with a new last one",
          "[recipes]") {
  const test::TempDir dir;
  const std::filesystem::path file = trained_tiny(dir.path());
  const auto before = tensors_in(Safetensors::open(file));
  TrainingJob job = job_below(dir.path() / "after", 1);
  job.settings.start_from = file.parent_path();  // a checkpoint is also accepted
  job.settings.lr = 1e-30;
  std::string text = test::kTinyModel;
  job.model = parse_model(text.replace(text.find("features: 3"), 11, "features: 4"), "tiny.yaml");
  train_on(2, job);
  const auto weights = newest_weights(job);
  CHECK(weights.at("conv.weight") == before.at("conv.weight"));
  CHECK(weights.at("bn.weight") == before.at("bn.weight"));
  CHECK(weights.at("fc.weight").size() == before.at("fc.weight").size() / 3 * 4);

  SECTION("other layers must have the same shape") {
    job = job_below(dir.path() / "other", 1);
    job.settings.start_from = file;
    text = test::kTinyModel;
    job.model = parse_model(text.replace(text.find("channels: 8"), 11, "channels: 4"), "tiny.yaml");
    CHECK_THAT(refusal(job),
               Contains("has 'conv.weight' of shape (8,1,3,3), but the model has (4,1,3,3); "
                        "only the last layer with weights may differ"));
  }
  SECTION("frozen layers must not start anew") {
    job.checkpoints = dir.path() / "frozen";
    job.settings.freeze = {"fc"};
    CHECK_THAT(refusal(job), Contains("has no matching 'fc.weight'"));
  }
  SECTION("at least one layer must fit") {
    write_tensors(dir.path() / "x", {{"x", {{"shape", {1}}, {"values", {1}}}}});
    job.settings.start_from = dir.path() / "x";
    CHECK_THAT(refusal(job), Contains("shares no tensor with model 'tiny': x"));
  }
}

TEST_CASE("fine-tuning can start from half-precision weights", "[recipes]") {
  const test::TempDir dir;
  const std::vector<uint16_t> halves(72, 0x3c00), brains(8, 0x3f80);
  const auto view = [](const char* name, DType type, std::vector<uint64_t> shape,
                       const auto& bits) {
    return TensorView{name, type, std::move(shape), std::as_bytes(std::span(bits))};
  };
  const std::vector<TensorView> tensors = {view("conv.weight", DType::F16, {8, 1, 3, 3}, halves),
                                           view("conv.bias", DType::BF16, {8}, brains)};
  write_safetensors(dir.path() / "half", tensors);
  TrainingJob job = tiny_job(dir.path(), 1);
  job.settings.start_from = dir.path() / "half";
  job.settings.freeze = {"conv"};
  train_on(1, job);
  CHECK(newest_weights(job).at("conv.weight") == std::vector<float>(72, 1.0f));
  CHECK(newest_weights(job).at("conv.bias") == std::vector<float>(8, 1.0f));
}

TEST_CASE("a pattern without a match is refused", "[recipes]") {
  const test::TempDir dir;
  TrainingJob job = tiny_job(dir.path(), 1);
  job.settings.freeze = {"conv*", "head"};
  CHECK(refusal(job) ==
        "with: 'freeze' has 'head', which matches no layer with weights of model 'tiny': conv, bn, "
        "fc");
  job.settings.freeze = {"*"};
  CHECK_THAT(refusal(job), Contains("leaves model 'tiny' no layer to train"));
  job.settings.freeze = {"conv"};
  job.settings.update.groups = {{"fc.*", 2, {}}, {"conv.*", 2, {}}};
  CHECK(refusal(job) ==
        "with: 'groups[1].match' is 'conv.*', which matches no trained parameter outside earlier "
        "groups: bn.weight, bn.bias, fc.weight, fc.bias");
}

TEST_CASE("keys of fine-tuning are read, and named if they are wrong", "[recipes][settings]") {
  const auto read = [](const Json& more) {
    Json with = {{"model", "m"}, {"data", "d"}, {"epochs", 1}, {"lr", 1}};
    with.update(more);
    return parse_train_settings(with);
  };
  const auto mistake = [&](const Json& more) -> std::string {
    return test::error_of([&] { read(more); });
  };
  const TrainSettings s = read({{"start_from", "f"},
                                {"freeze", {"a", "b*"}},
                                {"groups", {{{"match", "*"}, {"weight_decay", 0}}}}});
  CHECK(s.start_from == "f");
  CHECK(s.freeze == std::vector<std::string>{"a", "b*"});
  CHECK(s.update.groups == std::vector<ParameterGroup>{{"*", 1, 0.0}});
  CHECK_THAT(mistake({{"freeze", "conv"}}), Contains("'freeze' must be a list of patterns"));
  CHECK_THAT(mistake({{"groups", {{{"match", "*"}, {"lr_multiplier", 0}}}}}),
             Contains("'groups[0].lr_multiplier' must be above 0; 'freeze' keeps"));
  CHECK_THAT(mistake({{"groups", {{{"lr_multiplier", 2}}}}}), Contains("groups[0].match"));
  CHECK_THAT(mistake({{"groups", {{{"match", "*"}, {"rate", 2}}}}}), Contains("groups[0].rate"));
  CHECK_THAT(mistake({{"freeze", {"a"}}, {"cooperation", {{"kind", "local_sgd"}}}}),
             Contains("'freeze' needs ranks that step together"));
}

TEST_CASE("the mean of the weights has the same bits on any number of ranks, even after stops",
          "[recipes][exact]") {
  const auto kind = GENERATE(OptimizerOptions::Kind::Sgd, OptimizerOptions::Kind::Lamb);
  const bool shard = GENERATE(false, true);
  const auto change = [=](TrainingJob& job) {
    job.settings.update.optimizer.kind = kind;
    job.settings.update.shard_optimizer = shard;
    job.settings.update.ema = 0.9;
  };
  const test::Trained whole = trained(1, 0, 2, change);
  for (const int ranks : {2, 3}) {
    for (const int ranks_per_node : {0, 1}) {
      CHECK(trained(ranks, ranks_per_node, 2, change).result() == whole.result());
    }
  }
  CHECK(test::bits_in_parts({3, 1, 2, 2}, 1, 2, change) == whole.bits);
}

TEST_CASE("the mean of the weights is evaluated, and training uses the weights themselves",
          "[recipes]") {
  const test::TempDir plain, mean;
  TrainingJob job = tiny_job(plain.path(), 1);
  train_on(2, job);
  const auto weights = newest_weights(job);
  job = tiny_job(mean.path(), 1);
  job.settings.update.ema = 0.5;
  const TrainingEnd end = train_on(2, job)[0];
  const Checkpoint checkpoint = load_checkpoint(end.checkpoint);
  const auto kept = tensors_in(checkpoint.optimizer);
  for (const auto& [name, values] : weights) {
    INFO(name);
    CHECK(kept.at(name + ".trained") == values);
    if (name != "conv.bias") CHECK(newest_weights(job).at(name) != values);  // batch_norm undoes it
  }
  ThreadGroup alone(1);
  const Dataset held_out = split_off_validation(alone.communicator(0), job.data,
                                                *job.settings.validation, job.settings.seed)
                               .validation;
  NetworkSet networks(job.model, 7, Network::Mode::Inference);
  HugeBuffer loaded(networks.layout()->size());
  load_weights(checkpoint, *networks.layout(), loaded.floats());
  const Evaluation result =
      evaluate(alone.communicator(0), job.model, inference_with(networks, loaded.floats()),
               {held_out, training_state_of(checkpoint).normalization, 7});
  CHECK(result.loss == Approx(end.summary.at("loss").get<double>()).epsilon(1e-5));

  job.settings.update.ema = 0.9;
  CHECK_THAT(refusal(job), Contains("ema 0.5, not 0.9"));
}

TEST_CASE("the best value is the first of equals, and never NaN", "[recipes]") {
  BestValue best;
  CHECK_FALSE(best.take("accuracy", std::nan(""), 1, 0));
  CHECK(best.take("accuracy", 0.5, 2, 0));
  CHECK_FALSE(best.take("accuracy", 0.5, 3, 0));
  CHECK_FALSE(best.take("accuracy", 0.55, 4, 0.1));
  CHECK_FALSE(best.take("accuracy", std::nan(""), 5, 0));
  CHECK(best.take("accuracy", 0.65, 6, 0.1));
  CHECK(best == BestValue{0.65, 6});
  CHECK_FALSE(best.take("loss", 0.7, 7, 0));
  CHECK(best.take("loss", 0.6, 8, 0));
}

TEST_CASE("a training whose patience is exhausted ends after the same epoch on any ranks",
          "[recipes][exact]") {
  const auto change = [](TrainingJob& job) {
    job.settings.stop_early = {"accuracy", 2, 0};
    job.settings.keep_best = "accuracy";
  };
  const test::Trained whole = trained(1, 0, 40, change);
  const Json& end = whole.summary;
  const uint64_t epochs = end.at("epochs"), best = end.at("best_epoch");
  CHECK(epochs < 40);
  CHECK(epochs == best + 2);
  const std::vector<double> accuracies = accuracies_in(whole.lines);
  REQUIRE(accuracies.size() == epochs);
  CHECK(uint64_t(std::ranges::max_element(accuracies) - accuracies.begin()) + 1 == best);
  CHECK(end.at("accuracy") == accuracies[best - 1]);

  for (const int ranks : {2, 3}) {
    const test::Trained there = trained(ranks, 0, 40, change);
    CHECK(there.summary.at("epochs") == epochs);
    CHECK(there.summary.at("best_epoch") == best);
    CHECK(there.bits == whole.bits);
  }
  const test::TempDir parts;
  TrainingJob job = tiny_job(parts.path(), 40);
  change(job);
  const Json last = train_step_by_step(job, 7 * epochs);
  CHECK(last.at("epochs") == epochs);
  CHECK(last.at("best_epoch") == best);
  CHECK(newest_bits(parts.path()) == whole.bits);
  CHECK(train_on(1, job)[0].summary.at("epochs") == epochs);  // nothing is left to do
}

TEST_CASE("a training ends after the epoch that reaches its target, on any ranks",
          "[recipes][exact]") {
  const auto until = [](double reach) {
    return
        [=](TrainingJob& job) { job.settings.stop_early = {.metric = "accuracy", .reach = reach}; };
  };
  const test::Trained full = trained(1, 0, 8, until(1.5));
  CHECK(full.summary.at("epochs") == 8);
  CHECK_FALSE(full.summary.contains("reached_epoch"));
  const std::vector<double> accuracies = accuracies_in(full.lines);
  const double wanted = *std::ranges::max_element(accuracies);
  const uint64_t first = uint64_t(std::ranges::find(accuracies, wanted) - accuracies.begin()) + 1;
  const test::Trained end = trained(1, 0, 8, until(wanted));
  CHECK(end.summary.at("epochs") == first);
  CHECK(end.summary.at("reached_epoch") == first);
  CHECK(end.summary.at("accuracy") == wanted);

  const test::TempDir parts;
  TrainingJob job = tiny_job(parts.path(), 8);
  until(wanted)(job);
  CHECK(train_step_by_step(job, 7 * first).at("reached_epoch") == first);
  CHECK(newest_bits(parts.path()) == end.bits);
  CHECK(train_on(1, job)[0].summary.at("epochs") == first);
}

TEST_CASE(
    "mixed images give the same bits on any number of ranks, and need labels that can be mixed",
    "[recipes][exact]") {
  const auto mix = [](TrainingJob& job) {
    job.settings.augmentation = {.flip = true, .mixup = 0.4, .cutmix = 1};
    job.settings.label_smoothing = 0.1;
  };
  const auto smooth = [](TrainingJob& job) { job.settings.label_smoothing = 0.1; };
  const std::string alone = trained(1, 0, 2, mix).bits;
  CHECK(trained(1, 0, 2, smooth).bits != alone);
  for (const int ranks : {2, 3}) CHECK(trained(ranks, 0, 2, mix).bits == alone);
  const test::TempDir dir;
  TrainingJob job = tiny_job(dir.path(), 2);
  mix(job);
  job.model.loss = LossKind::Reconstruction;
  job.settings.label_smoothing = 0;
  CHECK_THAT(refusal(job), Contains("'augment.mixup' and 'augment.cutmix' mix labels; model 'tiny' "
                                    "has 'loss: reconstruction'"));
  job = tiny_job(dir.path(), 2);
  mix(job);
  job.settings.augmentation.saturation = 0.5;
  CHECK(refusal(job) ==
        "with: 'augment.saturation' is for pictures of 3 channels; the training data have 1");
}

TEST_CASE("shares of classes are learnt, even mixed ones, with the same bits on any ranks",
          "[recipes][exact]") {
  const auto end_with = [](int ranks, float share_of_label, double mixup = 0) {
    const test::TempDir dir;
    TrainingJob job = tiny_job(dir.path(), 1);
    job.settings.augmentation.mixup = mixup;
    std::vector<float> shares;
    for (const uint32_t label : job.data.labels.copy()) {
      for (uint32_t c = 0; c < 3; ++c) {
        shares.push_back(c == label ? share_of_label : (1 - share_of_label) / 2);
      }
    }
    job.data.labels = {};
    job.data.targets = Rows<float>(std::move(shares), job.data.num_targets = 3);
    const auto metrics = read_checkpoint_info(train_on(ranks, job)[0].checkpoint).metrics;
    return std::pair(newest_bits(dir.path()), metrics);
  };
  const test::TempDir dir;
  const auto with_labels =
      read_checkpoint_info(train_on(1, tiny_job(dir.path(), 1))[0].checkpoint).metrics;
  const auto whole = end_with(1, 1).second;
  CHECK(whole.at("loss") == Approx(with_labels.at("loss")).epsilon(1e-5));
  CHECK(whole.at("accuracy") == with_labels.at("accuracy"));
  CHECK(whole.at("f1") == with_labels.at("f1"));

  const auto [bits, soft] = end_with(1, 0.7f);
  CHECK(soft.at("loss") > whole.at("loss"));  // the entropy of the shares is a lower bound
  CHECK(end_with(2, 0.7f).first == bits);
  CHECK(end_with(3, 0.7f).first == bits);
  CHECK(end_with(1, 0.7f, 0.4).first == end_with(3, 0.7f, 0.4).first);
  CHECK(end_with(1, 0.7f, 0.4).first != bits);
}

TEST_CASE("samples drawn by class give the same bits on any number of ranks and after stops",
          "[recipes][exact]") {
  const auto draw = [](TrainingJob& job) { job.settings.class_shares = {1, 2, 4}; };
  const std::string alone = trained(1, 0, 2, draw).bits;
  for (const int ranks : {2, 3}) CHECK(trained(ranks, 0, 2, draw).bits == alone);
  CHECK(test::bits_in_parts(std::vector<int>(14, 2), 0, 2, draw) == alone);
}

TEST_CASE("the best checkpoint is kept, and is the result", "[recipes]") {
  const test::TempDir dir;
  TrainingJob job = tiny_job(dir.path(), 8);
  job.settings.keep_best = "loss";
  job.settings.lr = 3;  // too large a rate for further learning
  job.settings.schedule = Schedule::Course::Constant;
  job.policy.keep = 1;
  job.policy.unit = CheckpointPolicy::Unit::Epochs;
  job.policy.every = 100;  // saved because it is the best
  const TrainingEnd end = train_on(2, job)[0];
  double least = 1e9;
  uint64_t best = 0;
  for (const Json& line : lines_of(dir.path() / "metrics.jsonl")) {
    if (!line.contains("accuracy") || line.at("loss").get<double>() >= least) continue;
    least = line.at("loss");
    best = line.at("epoch");
  }
  REQUIRE(best < 8);
  CHECK(end.summary.at("best_epoch") == best);
  CHECK(end.summary.at("loss") == least);
  CHECK(end.checkpoint == checkpoint_folder(job.checkpoints, best * 7));
  CHECK(verify_checkpoint(end.checkpoint).metrics.at("loss") == least);
  CHECK(list_checkpoints(job.checkpoints).size() == 2);  // and the last one

  remove_checkpoint(end.checkpoint);
  job.settings.epochs = 9;
  CHECK_THAT(refusal(job), Contains("the best checkpoint so far cannot be used"));
}

TEST_CASE("training continues without the newest checkpoint if it was the best and is damaged",
          "[recipes]") {
  const auto job_in = [](const std::filesystem::path& folder) {
    TrainingJob job = tiny_job(folder, 2);
    job.settings.keep_best = "loss";
    job.settings.schedule = Schedule::Course::Constant;
    job.policy.keep = 2;
    job.policy.unit = CheckpointPolicy::Unit::Steps;
    job.policy.every = 3;
    return job;
  };
  const auto longer = [](TrainingJob job) {
    job.settings.epochs = 3;
    return job;
  };
  const test::TempDir whole, hurt;
  train_on(1, longer(job_in(whole.path())));

  const TrainingJob job = job_in(hurt.path());
  const TrainingEnd end = train_on(1, job)[0];
  REQUIRE(end.summary.at("best_epoch") == 2);
  const auto folders = list_checkpoints(job.checkpoints);
  REQUIRE(folders.size() == 3);  // including the first epoch's, the best when step 12 was saved
  REQUIRE(end.checkpoint == folders.back());
  std::filesystem::resize_file(end.checkpoint / "model.safetensors", 100);

  train_on(1, longer(job));
  CHECK(newest_bits(hurt.path()) == newest_bits(whole.path()));
}

TEST_CASE("keep_best and stop_early are refused if their metric is not measured", "[recipes]") {
  const test::TempDir dir;
  TrainingJob job = tiny_job(dir.path(), 1);
  job.settings.keep_best = "top5";
  CHECK(refusal(job) ==
        "with: 'keep_best' is 'top5', which model 'tiny' does not have; it has loss, "
        "accuracy, f1, auc");
  job.settings.keep_best = "";
  job.settings.stop_early = {"loss", 1, 0};
  job.settings.validation = 0;
  CHECK(refusal(job) ==
        "with: 'stop_early.metric' needs held-out samples; give 'validation' a number "
        "above 0");
}

TEST_CASE("training measures exactly the metrics listed for a model", "[recipes]") {
  const std::string scores = GENERATE("3", "6");
  const test::TempDir dir;
  TrainingJob job = tiny_job(dir.path(), 1);
  job.model = parse_model("name: m\ninput: [64]\nlayers:\n- linear: {features: " + scores + "}\n",
                          "m.yaml");
  const CheckpointInfo info = read_checkpoint_info(train_on(1, job)[0].checkpoint);
  std::set<std::string> measured;
  for (const auto& [name, value] : info.metrics) measured.insert(name);
  const auto names = metric_names(job.model);
  CHECK(measured == std::set<std::string>(names.begin(), names.end()));
}

TEST_CASE("class weights change the training, in the same way on any number of ranks",
          "[recipes][exact]") {
  const auto end_with = [](int ranks, const std::vector<float>& weights) {
    const auto change = [&](TrainingJob& job) {
      job.settings.class_weights = weights;
      job.settings.label_smoothing = 0.1;
    };
    return trained(ranks, 0, 1, change).bits;
  };
  const std::string alone = end_with(1, {0.5, 1, 4});
  CHECK(end_with(2, {0.5, 1, 4}) == alone);
  CHECK(end_with(3, {0.5, 1, 4}) == alone);
  CHECK(end_with(1, {}) != alone);

  const test::TempDir dir;
  TrainingJob job = tiny_job(dir.path(), 1);
  job.settings.class_weights = {1, 2};
  CHECK(refusal(job) == "with: 'class_weights' has 2 numbers for the 3 classes of model 'tiny'");
}

TEST_CASE("a training within a memory budget recomputes results, with the same bits", "[recipes]") {
  const test::TempDir dir;
  std::string layers = "- linear: {name: a, features: 64}\n";
  for (int i = 0; i < 10; ++i) layers += "- gelu\n- linear: {features: 64}\n";
  const auto job_within = [&](const std::string& name, uint64_t bytes) {
    TrainingJob job = job_below(dir.path() / name, 2);
    job.model = parse_model(
        "name: deep\ninput: [64]\nlayers:\n" + layers + "- linear: {name: last, features: 3}\n",
        "deep.yaml");
    job.settings.activation_bytes = bytes;
    return job;
  };
  const size_t usual = Network(job_within("a", 1).model, 4, Network::Mode::Training).value_bytes();
  train_on(2, job_within("usual", UINT64_MAX));
  train_on(2, job_within("again", usual * 7 / 10));
  CHECK(newest_bits(dir.path() / "usual") == newest_bits(dir.path() / "again"));
  CHECK_THAT(refusal(job_within("none", 100)), Contains("'activation_memory' is 100 B"));
}
