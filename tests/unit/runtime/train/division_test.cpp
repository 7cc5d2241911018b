#include "runtime/train/division.h"

#include <algorithm>

#include "base/error.h"
#include "base/leaves.h"
#include "runtime/collectives/sum_order.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/train/tiny_job.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

/// Batch normalisation after a linear layer: one value per sample and channel.
constexpr const char* kPerceptron = R"(name: perceptron
input: [1, 8, 8]
layers:
  - flatten
  - linear: {name: first, features: 32}
  - batch_norm: {name: bn}
  - relu
  - linear: {name: second, features: 3}
)";

/// Two values per sample and channel.
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

/// The number of ranks without samples in a whole step.
size_t ranks_without_samples(const LeafSettings& settings, size_t ranks) {
  const size_t samples = settings.batch * settings.accumulate, leaves = num_leaves(settings);
  const Division division = {samples, samples, leaves};
  size_t count = 0;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const LeafShare share = leaf_share(leaves, int(rank), int(ranks));
    size_t own = 0;
    for (size_t i = 0; i < share.count; ++i) own += division.leaf(0, share.first + i).count;
    if (own == 0) ++count;
  }
  return count;
}

/// The number after `key` in `text`; 0 without it.
size_t number_behind(const std::string& key, const std::string& text) {
  const size_t place = text.find(key);
  return place == std::string::npos ? 0 : std::stoul(text.substr(place + key.size()));
}

/// Returns `settings` after following `advice`.
LeafSettings advised(LeafSettings settings, const std::string& advice) {
  if (const size_t leaves = number_behind("leaves: ", advice)) settings.leaves = leaves;
  if (const size_t batch = number_behind("batch: ", advice)) settings.batch = batch;
  return settings;
}

/// Whether the message about idle ranks is true, and each advice gives all of them samples.
bool is_true(const std::optional<std::string>& told, const LeafSettings& settings, size_t ranks) {
  const size_t idle = ranks_without_samples(settings, ranks);
  if (!told) return idle == 0;
  const std::string advice = told->substr(told->find("All have work with"));
  const size_t middle = advice.find(", or with");
  std::vector<std::string> ways = {advice.substr(0, middle)};
  if (middle != std::string::npos) ways.push_back(advice.substr(middle));
  return std::stoul(*told) == idle && idle > 0 &&
         std::ranges::all_of(ways, [&](const std::string& way) {
           return ranks_without_samples(advised(settings, way), ranks) == 0;
         });
}

}  // namespace

TEST_CASE("a small last step does not undo training with batch normalisation", "[division]") {
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

TEST_CASE("batch normalisation over one value is refused, with what to do", "[division]") {
  const auto divide = [](const char* model, size_t samples, TrainSettings settings) {
    return division_of(settings, parse_model(model, "m.yaml"), samples, {1, 2});
  };
  CHECK_THROWS_WITH(
      divide(kPerceptron, 129, settings_of(128, 4)),
      "batch normalisation 'bn' would be over one value: 129 samples in steps of 128 "
      "leave a last step of one sample; use another 'batch', fewer leaves, or 'last_batch: drop'");
  CHECK_THROWS_AS(divide(kPerceptron, 128, settings_of(4, 4)), Error);
  CHECK(divide(kPerceptron, 130, settings_of(128, 4)).num_steps() == 2);
  CHECK(divide(test::kTinyModel, 129, settings_of(128, 4)).num_steps() == 2);  // over pixels
  CHECK(divide(kTwoPixels, 129, settings_of(128, 4)).num_steps() == 2);
  Model frozen = parse_model(kPerceptron, "m.yaml");
  for (Layer& layer : frozen.layers) layer.frozen = true;  // running statistics
  CHECK(division_of(settings_of(128, 4), frozen, 129, {1, 2}).num_steps() == 2);
  TrainSettings settings = settings_of(128, 4);
  SECTION("if the last batch is dropped") { settings.last_batch = LastBatch::Drop; }
  SECTION("if statistics are over the whole step") {
    settings.batch = 43;  // three steps
    settings.precision.leaves = 43;
    settings.joint_batch_norm = true;
  }
  CHECK_NOTHROW(divide(kPerceptron, 129, settings));
}

TEST_CASE("too many leaves are refused before they are counted", "[division]") {
  TrainSettings settings = settings_of(128, 8);
  settings.update.accumulate = 1 << 20;
  CHECK_THROWS_WITH(division_of(settings, perceptron(), 500, {}),
                    "with: a step has 8388608 leaves, more than 1048576; take a smaller "
                    "'accumulate'");
}

TEST_CASE("data smaller than a dropped last batch leaves nothing to train with", "[division]") {
  TrainSettings settings = settings_of(128, 4);
  settings.last_batch = LastBatch::Drop;
  CHECK_THROWS_WITH(division_of(settings, perceptron(), 127, {}),
                    "with: 'last_batch: drop' leaves no step: there are 127 samples to train with, "
                    "and a step takes 128");
}

TEST_CASE("ranks reported as idle have no samples, and the advice gives them some", "[division]") {
  for (const size_t batch : {1, 2, 3, 4, 5, 7, 8, 31, 64, 100, 128, 300}) {
    for (size_t leaves = 0; leaves <= 12; ++leaves) {
      for (size_t accumulate = 1; accumulate <= 3; ++accumulate) {
        for (size_t ranks = 1; ranks <= 13; ++ranks) {
          const LeafSettings settings = {batch, leaves, accumulate};
          const auto told = idle_ranks(settings, ranks);
          if (is_true(told, settings, ranks)) continue;
          FAIL(batch << " samples, leaves: " << leaves << ", accumulate: " << accumulate << ", "
                     << ranks << " ranks: " << told.value_or("nothing"));
        }
      }
    }
  }
}
