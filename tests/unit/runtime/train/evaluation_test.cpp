#include "runtime/train/evaluation.h"

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

/// Samples of three pixels; that of class 0, one of class 1 and one that has none.
Dataset masked(size_t num_samples) {
  std::vector<uint8_t> rows;
  for (size_t i = 0; i < num_samples; ++i) {
    for (const uint32_t number : {0u, 0u, 0u, 0u, 1u, kNoClass}) rows.push_back(uint8_t(number));
  }
  Dataset dataset{
      {1, 1, 3}, 2, Images<uint8_t>(std::move(rows), 6), std::vector<uint32_t>(num_samples)};
  dataset.has_masks = true;
  return dataset;
}

}  // namespace

TEST_CASE("the pixels of all ranks count, and none that have no class", "[evaluation]") {
  constexpr size_t kSamples = 7, kBatch = 2;
  const Model model = parse_model(kOfPixels, "pixels.yaml");
  const Dataset dataset = masked(kSamples);
  const Normalization normalization = {{1}, {0}};
  const int ranks = GENERATE(1, 2, 3, 5);
  const auto counts = test::on_ranks(ranks, [&](Communicator& comm) {
    std::vector<float> scores;
    // All pixels are taken for class 1: (classes, pixels) of each sample.
    const Inference infer = [&](const Leaf& part) {
      scores.clear();
      for (size_t i = 0; i < part.count(); ++i) {
        for (const float score : {0, 0, 0, 1, 1, 1}) scores.push_back(score);
      }
      return Inferred{{}, scores};
    };
    return evaluate(comm, model, infer, {dataset, normalization, kBatch}).pixels;
  });
  const std::vector<int64_t> expected = {0, kSamples, 0, kSamples};  // rows: what they are
  for (const auto& count : counts) CHECK(count == expected);
}
