#include "runtime/train/evaluation.h"

#include <cmath>

#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

constexpr const char* kOfPixels = R"(name: pixels
input: [1, 1, 3]
layers:
  - conv2d: {name: out, channels: 2, kernel: 1}
loss: pixel_cross_entropy
)";

/// Samples of three pixels: of class 0, of class 1, and without a class.
Dataset masked(size_t num_samples) {
  std::vector<uint8_t> rows;
  for (size_t i = 0; i < num_samples; ++i) {
    for (const uint32_t number : {0u, 0u, 0u, 0u, 1u, kNoClass}) rows.push_back(uint8_t(number));
  }
  Dataset dataset{
      {1, 1, 3}, 2, PixelRows<uint8_t>(std::move(rows), 6), std::vector<uint32_t>(num_samples)};
  dataset.has_masks = true;
  return dataset;
}

/// Evaluates seven samples in batches of two on each of `ranks` ranks; `infer` gives the scores and
/// the result for a sample's number.
template <typename Infer>
std::vector<Evaluation> evaluated(int ranks, const char* model_text, const Dataset& dataset,
                                  Infer infer) {
  const Model model = parse_model(model_text, "model.yaml");
  const Normalization normalization = {{1}, {0}};
  return test::on_ranks(ranks, [&](Communicator& comm) {
    std::vector<float> scores;
    const Inference inference = [&](const Leaf& part) {
      scores.clear();
      BatchResult result;
      for (const uint32_t sample : part.samples) infer(sample, scores, result);
      return Inferred{result, scores};
    };
    return evaluate(comm, model, inference, {dataset, normalization, 2});
  });
}

}  // namespace

TEST_CASE("the pixels of all ranks count, except those without a class", "[evaluation]") {
  const int ranks = GENERATE(1, 2, 3, 5);
  // All pixels of sample 0 are predicted as class 0, those of others as class 1: (classes, pixels).
  const auto infer = [](uint32_t sample, std::vector<float>& scores, BatchResult&) {
    const float one = sample == 0 ? 0 : 1;
    scores.insert(scores.end(), {0.5, 0.5, 0.5, one, one, one});
  };
  for (const Evaluation& result : evaluated(ranks, kOfPixels, masked(7), infer)) {
    CHECK(result.pixels == std::vector<int64_t>{1, 6, 1, 6});  // rows: true classes
    CHECK(result.iou == Approx((1.0 / 8 + 6.0 / 13) / 2));
    CHECK(result.dice == Approx((2.0 / 9 + 12.0 / 19) / 2));
    CHECK(result.metrics().at("iou") == *result.iou);
  }
}

TEST_CASE("the classes of all ranks' samples are in the order of samples", "[evaluation]") {
  const int ranks = GENERATE(1, 2, 3, 5);
  const std::vector<uint32_t> labels = {0, 0, 1, 1, 0, 1, 1};
  const Dataset dataset =
      make_dataset<uint8_t>({1, 1, 2}, 2, std::vector<uint8_t>(14), std::vector(labels));
  const std::vector<float> second = {-3, -2, 2, 3, 1, 4, -1};  // scores of class 1; class 0 has 0
  const auto infer = [&](uint32_t sample, std::vector<float>& scores, BatchResult&) {
    scores.insert(scores.end(), {0, second[sample]});
  };
  for (const Evaluation& result : evaluated(
           ranks, "name: m\ninput: [2]\nlayers:\n  - linear: {features: 2}\n", dataset, infer)) {
    CHECK(result.predicted == std::vector<uint32_t>{0, 0, 1, 1, 1, 1, 0});
    CHECK(result.auc == Approx(11.0 / 12));  // one of 12 pairs is in the wrong order
  }
}

TEST_CASE("errors of all batches add up", "[evaluation]") {
  const int ranks = GENERATE(1, 2, 3);
  const Dataset dataset =
      make_dataset<uint8_t>({1, 1, 2}, std::vector<uint8_t>(14), std::vector<float>(7), 1);
  const auto infer = [](uint32_t sample, std::vector<float>& scores, BatchResult& result) {
    scores.push_back(0);
    result.squared_error += double(sample);
    result.absolute_error += double(sample) / 2;
  };
  for (const Evaluation& result :
       evaluated(ranks, "name: m\ninput: [2]\nlayers:\n  - linear: {features: 1}\nloss: mse\n",
                 dataset, infer)) {
    CHECK(result.rmse == Approx(std::sqrt(3.0)));
    CHECK(result.mae == Approx(1.5));
  }
}

TEST_CASE("counts of all batches add up", "[evaluation]") {
  const int ranks = GENERATE(1, 2, 3);
  const Dataset dataset =
      make_dataset<uint8_t>({1, 1, 2}, 6, std::vector<uint8_t>(14), std::vector<uint32_t>(7));
  const auto infer = [](uint32_t sample, std::vector<float>& scores, BatchResult& result) {
    scores.resize(scores.size() + 6);
    result.num_targets += 1;
    result.num_correct += sample < 2 ? 1 : 0;
    result.num_in_top5 += sample < 5 ? 1 : 0;
  };
  for (const Evaluation& result : evaluated(
           ranks, "name: m\ninput: [2]\nlayers:\n  - linear: {features: 6}\n", dataset, infer)) {
    CHECK(result.accuracy == Approx(2.0 / 7));
    CHECK(result.top5 == Approx(5.0 / 7));
  }
}
