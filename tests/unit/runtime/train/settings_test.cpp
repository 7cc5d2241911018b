#include "runtime/train/settings.h"

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_data.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

Json with(const Json& more) {
  Json json = {{"model", "m.yaml"}, {"data", "d"}, {"epochs", 3}, {"lr", 0.1}};
  json.update(more);
  return json;
}

std::string mistake(const Json& json) {
  try {
    parse_train_settings(json);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("what a train step does not say has a default", "[settings]") {
  const TrainSettings s = parse_train_settings(with(Json::object()));
  CHECK(global_batch(s, 3) == 128);
  CHECK(s.precision.exact);
  CHECK_FALSE(s.joint_batch_norm);
  CHECK(s.gradients == GradientTravel{DataType::Float32, true});
  CHECK(num_leaves(s, 3) == 4);
  CHECK(s.momentum == 0.9);
  CHECK(s.validation == 5000);
  CHECK(s.schedule == Schedule::Shape::Cosine);
  CHECK_FALSE(s.normalize);
  CHECK(s.augmentation == Augmentation{});
}

TEST_CASE("every key of a train step is read", "[settings]") {
  const TrainSettings s =
      parse_train_settings(with({{"batch_per_rank", 32.0},
                                 {"precision", {{"reduction", "fast"}}},
                                 {"batch_norm", "global"},
                                 {"gradients", {{"wire", "bf16"}, {"priority", false}}},
                                 {"momentum", 0},
                                 {"weight_decay", 1e-4},
                                 {"warmup_epochs", 0.5},
                                 {"schedule", "constant"},
                                 {"seed", 7},
                                 {"validation", 0},
                                 {"augment", {"crop", "flip"}},
                                 {"normalize", {{"mean", 0.5}, {"std", {0.25}}}}}));
  CHECK(global_batch(s, 3) == 96);
  CHECK_FALSE(s.precision.exact);
  CHECK(s.joint_batch_norm);
  CHECK(s.gradients == GradientTravel{DataType::BFloat16, false});
  CHECK(num_leaves(s, 3) == 3);
  CHECK(s.momentum == 0);
  CHECK(s.weight_decay == 1e-4);
  CHECK(s.warmup_epochs == 0.5);
  CHECK(s.schedule == Schedule::Shape::Constant);
  CHECK(s.seed == 7);
  CHECK(s.validation == 0);
  CHECK(s.augmentation == Augmentation{4, true});
  CHECK(s.normalize == PixelStatistics{{0.5}, {0.25}});
}

TEST_CASE("a wrong key is named", "[settings]") {
  CHECK(mistake(with({{"momentun", 0.9}})) ==
        "with: unknown key 'momentun'; did you mean 'momentum'?");
  CHECK(mistake(with({{"epochs", 2.5}})) == "with: 'epochs' must be a whole number of at least 1");
  CHECK(mistake(with({{"lr", "fast"}})) == "with: 'lr' must be a number, not negative");
  CHECK(mistake(with({{"augment", {"rotate"}}})) ==
        "with: 'augment' must be a list of 'crop' and 'flip'");
  CHECK(mistake(with({{"normalize", {{"mean", 0}, {"std", 0}}}})) ==
        "with: 'normalize.std' must be above 0");
  CHECK(mistake({{"model", "m"}, {"data", "d"}, {"epochs", 1}}) == "with: 'lr' is missing");
}

TEST_CASE("statistics become a scale and a shift of the stored pixels", "[settings]") {
  const Dataset bytes = test::tiny_dataset(2);
  const Normalization n = normalization_from({{0.5}, {0.25}}, bytes);
  CHECK(n.scale[0] * 255 + n.shift[0] == Approx((1 - 0.5) / 0.25));
  CHECK_THROWS_AS(normalization_from({{0.5, 0.5}, {0.25}}, bytes), Error);
}

TEST_CASE("a checkpoint policy is read from its variables", "[settings]") {
  using Unit = CheckpointPolicy::Unit;
  CHECK(parse_checkpoint_policy("", "") == CheckpointPolicy{Unit::Epochs, 1, 2});
  CHECK(parse_checkpoint_policy("200 steps", "5") == CheckpointPolicy{Unit::Steps, 200, 5});
  CHECK(parse_checkpoint_policy("1800 seconds", "") == CheckpointPolicy{Unit::Seconds, 1800, 2});
  for (const char* bad : {"often", "0 steps", "3 parsecs", "3", "-1 epochs"}) {
    CHECK_THROWS_AS(parse_checkpoint_policy(bad, ""), Error);
  }
}

TEST_CASE("leaves have at least 32 samples unless their number is given", "[settings]") {
  const auto leaves = [](const Json& json) {
    const TrainSettings settings = parse_train_settings(with(json));
    CHECK(num_leaves(settings, 2) == num_leaves(settings, 5));
    return num_leaves(settings, 2);
  };
  CHECK(leaves({{"batch", 31}}) == 1);
  CHECK(leaves({{"batch", 100}}) == 2);
  CHECK(leaves({{"batch", 256}}) == 8);
  CHECK(leaves({{"batch", 4096}}) == 8);
  CHECK(leaves({{"batch", 64}, {"precision", {{"leaves", 7}}}}) == 7);
}

TEST_CASE("gradients travel in a type that keeps what precision promises", "[settings]") {
  CHECK(mistake(with({{"gradients", {{"wire", "bf16"}}}})) ==
        "with: 'gradients.wire' must be 'fp32' unless 'precision' has 'reduction: fast'");
  CHECK(mistake(with({{"gradients", {{"wire", "int8"}}}})) ==
        "with: 'gradients.wire' must be 'fp32', 'fp16' or 'bf16'");
  CHECK(mistake(with({{"gradients", {{"priority", "high"}}}})) ==
        "with: 'gradients.priority' must be true or false");
}

TEST_CASE("precision is refused where it contradicts itself", "[settings]") {
  CHECK(mistake(with({{"precision", "exact"}})) == "with: 'precision' is not a JSON object");
  CHECK(mistake(with({{"precision", {{"reduction", "quick"}}}})) ==
        "with: 'precision.reduction' must be 'exact' or 'fast'");
  CHECK(mistake(with({{"precision", {{"leafs", 2}}}})) ==
        "with: unknown key 'precision.leafs'; did you mean 'leaves'?");
  CHECK(mistake(with({{"precision", {{"reduction", "fast"}, {"leaves", 2}}}})) ==
        "with: 'precision.leaves' must be left out with 'reduction: fast', which has one per rank");
  CHECK(mistake(with({{"batch", 2}, {"batch_per_rank", 2}})) ==
        "with: 'batch_per_rank' must be left out where 'batch' is given");
}
