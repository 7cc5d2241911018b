#include "engine/init/training.h"

#include <span>

#include "runtime/checkpoint/safetensors.h"
#include "tests/support/catch.h"

using namespace dlflow;
using Catch::Contains;

TEST_CASE("target numbers have their mean and deviation in a weights file", "[init]") {
  const auto rows = runtime::make_dataset<float>({2, 1, 1}, {0, 0, 0, 0, 0, 0, 0, 0},
                                                 {1, 7, 3, 7, 5, 7, 7, 7}, 2);
  const TrainingData data = training_data_of(rows);
  REQUIRE(data.targets.size() == 2);
  const std::string file = scale_file(data.targets);
  const auto tensors = runtime::Safetensors::parse(std::as_bytes(std::span(file)), "scale");
  float mean[2], deviation[2];
  runtime::copy_elements<float>(tensors.at("scale.bias"), mean);
  runtime::copy_elements<float>(tensors.at("scale.weight"), deviation);
  CHECK(mean[0] == 4);
  CHECK(mean[1] == 7);
  CHECK(deviation[0] == Approx(2.2360680));
  CHECK(deviation[1] == 1);  // all are equal
}

TEST_CASE("networks for pictures have as many convolutions as the size allows", "[init]") {
  const auto model = [](uint32_t side) {
    return model_text("m", {.shape = {3, side, side}, .samples = 9, .classes = 5});
  };
  CHECK_THAT(model(32), Contains("input: [3, 32, 32]") && Contains("name: stage3, channels: 64") &&
                            Contains("linear: {features: 5}"));
  CHECK_THAT(model(8), Contains("stage2") && !Contains("stage3"));
  CHECK_THAT(model(2), Contains("flatten") && !Contains("blocks"));
  CHECK_THAT(model_text("m", {.shape = {4, 1, 1}, .targets = {{}}}),
             Contains("input: [4]\nlayers:\n  - linear") && Contains("batch_norm: {name: scale}"));
}
