#include "runtime/train/split.h"

#include <set>

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_data.h"

using namespace dlflow;
using namespace dlflow::runtime;

TEST_CASE("validation samples are held out, and none is lost", "[split]") {
  std::vector<uint8_t> pixels;
  std::vector<uint32_t> labels;
  for (uint8_t i = 0; i < 50; ++i) {
    pixels.insert(pixels.end(), {i, 0});  // the first value names the picture
    labels.push_back(i % 3);
  }
  const Dataset dataset = make_dataset({1, 1, 2}, 3, pixels, labels);
  const size_t held_out = GENERATE(0, 1, 20, 49);
  const TrainingData parts = split_off_validation(dataset, held_out, 3);
  CHECK(parts.validation.size() == held_out);
  CHECK(parts.train.size() == 50 - held_out);
  std::set<uint8_t> seen;
  for (const Dataset* part : {&parts.train, &parts.validation}) {
    for (size_t i = 0; i < part->size(); ++i) {
      const uint8_t name = std::get<Images<uint8_t>>(part->pixels)[i][0];
      CHECK(part->labels[i] == dataset.labels[name]);
      seen.insert(name);
    }
  }
  CHECK(seen.size() == 50);
}

TEST_CASE("the same seed holds out the same samples", "[split]") {
  const Dataset dataset = test::tiny_dataset(50);
  CHECK(split_off_validation(dataset, 9, 3).validation ==
        split_off_validation(dataset, 9, 3).validation);
  CHECK(split_off_validation(dataset, 9, 3).validation !=
        split_off_validation(dataset, 9, 4).validation);
}

TEST_CASE("something must be left to train on", "[split]") {
  CHECK_THROWS_AS(split_off_validation(test::tiny_dataset(50), 50, 0), Error);
}
