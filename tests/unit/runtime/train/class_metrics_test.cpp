#include "runtime/train/class_metrics.h"

#include <random>

#include "runtime/train/evaluation.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/train/tiny_job.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

/// The area computed from all pairs.
double area_by_pairs(const std::vector<uint32_t>& labels, const std::vector<float>& scores,
                     size_t classes, size_t c) {
  double right = 0, pairs = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    for (size_t j = 0; j < labels.size(); ++j) {
      if (labels[i] != c || labels[j] == c) continue;
      const float own = scores[i * classes + c], other = scores[j * classes + c];
      right += own > other ? 1 : own == other ? 0.5 : 0;
      pairs += 1;
    }
  }
  return right / pairs;
}

}  // namespace

TEST_CASE("F1 and the confusion matrix are those of scikit-learn's documentation", "[metrics]") {
  // sklearn.metrics.f1_score and confusion_matrix, examples
  const std::vector<uint32_t> labels = {0, 1, 2, 0, 1, 2}, predicted = {0, 2, 1, 0, 0, 1};
  CHECK(macro_f1(count_classes(labels, predicted, 3)) == Approx(0.26666666));
  CHECK(macro_f1(count_classes(labels, predicted, 5)) == Approx(0.26666666));  // two never occur
  const std::vector<uint32_t> truth = {2, 0, 2, 2, 0, 1}, guess = {0, 0, 2, 2, 0, 2};
  CHECK(confusion_matrix(truth, guess, 3) == std::vector<int64_t>{2, 0, 0, 0, 0, 1, 1, 0, 2});
  CHECK(macro_f1({}) == 0);
}

TEST_CASE("intersection over union equals scikit-learn's, over the classes that occur",
          "[metrics]") {
  // sklearn.metrics.jaccard_score, examples: [0, 2, 1, 2] and [0, 1, 2, 2] give 1, 0 and 1/3
  const std::vector<uint32_t> truth = {0, 1, 2, 2}, guess = {0, 2, 1, 2};
  CHECK(mean_iou(count_classes(truth, guess, 3)) == Approx((1 + 0 + 1.0 / 3) / 3));
  CHECK(mean_iou(count_classes(truth, guess, 6)) == Approx((1 + 0 + 1.0 / 3) / 3));
  CHECK(mean_iou({}) == 0);
}

TEST_CASE("a confusion matrix has the counts of each class", "[metrics]") {
  const std::vector<uint32_t> truth = {2, 0, 2, 2, 0, 1}, guess = {0, 0, 2, 2, 0, 2};
  const auto of_matrix =
      count_classes(std::span<const int64_t>(confusion_matrix(truth, guess, 3)), 3);
  const auto counts = count_classes(truth, guess, 3);
  for (size_t c = 0; c < 3; ++c) {
    CHECK(of_matrix[c].samples == counts[c].samples);
    CHECK(of_matrix[c].predicted == counts[c].predicted);
    CHECK(of_matrix[c].correct == counts[c].correct);
  }
}

TEST_CASE("metrics of classes are named after the classes, with letters valid in expressions",
          "[metrics]") {
  using Names = std::vector<std::string>;
  CHECK(class_keys(Names{"T-shirt/top", "Ankle boot", "é3", "_x_"}, 4) ==
        Names{"T_shirt_top", "Ankle_boot", "3", "x"});
  CHECK(class_keys(Names{}, 2) == Names{"0", "1"});
  CHECK(class_keys(Names{"cat", "--", "dog"}, 4) == Names{"cat", "1", "dog", "3"});
  CHECK(class_keys(Names{"a b", "a-b", "c"}, 3) == Names{"a_b_0", "a_b_1", "c"});
  CHECK(class_keys(Names{"a", "a", "a_0"}, 3) == Names{"0", "1", "2"});
}

TEST_CASE("the class of a pixel is the first of the highest scores", "[metrics]") {
  std::vector<uint8_t> classes;
  highest_classes(std::vector<float>{1, 5, 2, 0, 5, 2, 3, 5, 7}, 3, classes);
  CHECK(classes == std::vector<uint8_t>{2, 0, 2});
}

TEST_CASE("the area under the curve is the share of correctly ordered pairs", "[metrics]") {
  const size_t classes = GENERATE(2, 3, 7);
  std::mt19937 random(5);
  std::vector<uint32_t> labels(60);
  std::vector<float> scores(labels.size() * classes);
  for (uint32_t& label : labels) label = uint32_t(random() % classes);
  for (float& score : scores) score = float(random() % 12) / 12;  // some are equal
  double mean = 0;
  for (size_t c = 0; c < classes; ++c) mean += area_by_pairs(labels, scores, classes, c);
  mean /= double(classes);
  if (classes == 2) mean = area_by_pairs(labels, scores, 2, 1);
  CHECK(area_under_curve(labels, scores, classes).value() == Approx(mean).epsilon(1e-12));
}

TEST_CASE("the area under the curve equals scikit-learn's, or is undefined", "[metrics]") {
  // sklearn.metrics.roc_auc_score([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
  const std::vector<float> scores = {0.9f, 0.1f, 0.6f, 0.4f, 0.65f, 0.35f, 0.2f, 0.8f};
  const std::vector<uint32_t> labels = {0, 0, 1, 1};
  CHECK(area_under_curve(labels, scores, 2) == 0.75);
  CHECK(area_under_curve(std::vector<uint32_t>{1, 1, 1, 1}, scores, 2) == std::nullopt);
  std::vector<float> broken = scores;
  broken[3] = std::nanf("");
  CHECK(area_under_curve(labels, broken, 2) == std::nullopt);
  CHECK(area_under_curve({}, {}, 2) == std::nullopt);
}

TEST_CASE("metrics of classes have the same bits on any number of ranks", "[metrics][exact]") {
  const auto measured_on = [](int ranks) {
    const test::TempDir dir;
    test::TrainingJob job = test::tiny_job(dir.path(), 1);
    job.settings.lr = 0.005;
    const CheckpointInfo info = read_checkpoint_info(test::train_on(ranks, job)[0].checkpoint);
    return std::pair(info.metrics.at("f1"), info.metrics.at("auc"));
  };
  const auto alone = measured_on(1);
  CHECK(alone.first > 0);
  CHECK(alone.first < 1);
  CHECK(alone.second > 0.5);
  CHECK(measured_on(2) == alone);
  CHECK(measured_on(3) == alone);
}
