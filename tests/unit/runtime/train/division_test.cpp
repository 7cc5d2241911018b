#include "runtime/train/division.h"

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/train/tiny_job.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

/// Batch normalisation behind a linear layer: one value per sample and channel.
constexpr const char* kPerceptron = R"(name: perceptron
input: [1, 8, 8]
layers:
  - flatten
  - linear: {name: first, features: 32}
  - batch_norm: {name: bn}
  - relu
  - linear: {name: second, features: 3}
)";

/// Two values per sample and channel, one below the other.
constexpr const char* kTwoPixels = R"(name: two
input: [1, 3, 2]
layers:
  - conv2d: {name: conv, channels: 4, kernel: 2}
  - batch_norm: {name: bn}
  - flatten
  - linear: {name: last, features: 3}
)";

Model perceptron() { return parse_model(kPerceptron, "perceptron.yaml"); }

TrainSettings settings_of(size_t batch, size_t leaves) {
  TrainSettings settings;
  settings.batch = batch;
  settings.precision.leaves = leaves;
  return settings;
}

}  // namespace

TEST_CASE("a last, uneven step leaves what was learnt behind a batch normalisation", "[division]") {
  const test::TempDir dir;
  TrainingJob job = test::tiny_job(dir.path(), 12);
  job.model = perceptron();
  job.data = test::tiny_dataset(3080 + 500);
  job.settings.validation = 500;
  job.settings.batch = 128;
  job.settings.precision.leaves = 4;  // 8 samples are left for an epoch's last step
  job.settings.lr =
      1;  // with leaves of 2 samples, accuracies of 0.6 to 0.8 from the third epoch on
  job.settings.schedule = Schedule::Course::Constant;
  test::train_on(2, job);
  for (const Json& line : test::lines_of(dir.path() / "metrics.jsonl")) {
    if (!line.contains("accuracy")) continue;
    CAPTURE(line.dump());
    CHECK(line.at("accuracy") > 0.9);
  }
}

TEST_CASE("batch normalisation over one value is refused, and says what to do", "[division]") {
  const auto divide = [](const char* model, size_t samples, TrainSettings settings) {
    return division_of(settings, parse_model(model, "m.yaml"), samples, {1, 2});
  };
  CHECK_THROWS_WITH(divide(kPerceptron, 129, settings_of(128, 4)),
                    "batch normalisation 'bn' would be over one value: 129 samples in steps of 128 "
                    "leave one alone; take another 'batch', fewer leaves, or 'last_batch: drop'");
  CHECK_THROWS_AS(divide(kPerceptron, 128, settings_of(4, 4)), Error);
  CHECK(divide(kPerceptron, 130, settings_of(128, 4)).num_steps() == 2);
  CHECK(divide(test::kTinyModel, 129, settings_of(128, 4)).num_steps() == 2);  // of pixels
  CHECK(divide(kTwoPixels, 129, settings_of(128, 4)).num_steps() == 2);
  TrainSettings settings = settings_of(128, 4);
  SECTION("dropped") { settings.last_batch = LastBatch::Drop; }
  SECTION("over the whole step") {
    settings.batch = 43;  // three steps
    settings.precision.leaves = 43;
    settings.joint_batch_norm = true;
  }
  CHECK_NOTHROW(divide(kPerceptron, 129, settings));
}

TEST_CASE("less than a batch that is to be dropped is nothing to train with", "[division]") {
  TrainSettings settings = settings_of(128, 4);
  settings.last_batch = LastBatch::Drop;
  CHECK_THROWS_WITH(division_of(settings, perceptron(), 127, {}),
                    "with: 'last_batch: drop' leaves no step: there are 127 samples to train with, "
                    "and a step takes 128");
}
