#include "runtime/train/split.h"

#include <set>

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"
#include "tests/support/tiny_data.h"

using namespace dlflow;
using namespace dlflow::runtime;

TEST_CASE("all ranks hold out the same validation samples, and none is lost", "[split]") {
  std::vector<uint8_t> pixels;
  std::vector<uint32_t> labels;
  for (uint8_t i = 0; i < 50; ++i) {
    pixels.insert(pixels.end(), {i, 0});  // the first value identifies the picture
    labels.push_back(i % 3);
  }
  const Dataset dataset = make_dataset({1, 1, 2}, 3, pixels, labels);
  const size_t held_out = GENERATE(0, 1, 20, 49);
  ThreadGroup group(3, std::chrono::seconds(10), 2);  // two nodes
  const auto parts_of_ranks = test::on_ranks(group, 3, [&](Communicator& comm) {
    return split_off_validation(comm, dataset, held_out, 3);
  });
  const TrainingData& parts = parts_of_ranks[0];
  CHECK(parts.validation.size() == held_out);
  CHECK(parts.train.size() == 50 - held_out);
  std::set<uint8_t> seen;
  for (const Dataset* part : {&parts.train, &parts.validation}) {
    uint8_t last = 0;
    for (size_t i = 0; i < part->size(); ++i) {
      const uint8_t name = std::get<PixelRows<uint8_t>>(part->pixels)[i][0];
      CHECK(part->labels[i] == dataset.labels[name]);
      CHECK((i == 0 || name > last));
      last = name;
      seen.insert(name);
    }
  }
  CHECK(seen.size() == 50);
  for (const TrainingData& theirs : parts_of_ranks) {
    CHECK(theirs.train == parts.train);
    CHECK(theirs.validation == parts.validation);
  }
}

TEST_CASE("the same seed holds out the same samples", "[split]") {
  const Dataset dataset = test::tiny_dataset(50);
  ThreadGroup alone(1);
  const auto held_out = [&](uint64_t seed) {
    return split_off_validation(alone.communicator(0), dataset, 9, seed).validation;
  };
  CHECK(held_out(3) == held_out(3));
  CHECK(held_out(3) != held_out(4));
}

TEST_CASE("a validation split must leave samples for training", "[split]") {
  ThreadGroup alone(1);
  const auto divide = [&](size_t held_out) {
    return split_off_validation(alone.communicator(0), test::tiny_dataset(50), held_out, 0);
  };
  const size_t too_many = GENERATE(50, 51, 5000);
  CHECK_THROWS_WITH(divide(too_many), "with: 'validation' holds out " + std::to_string(too_many) +
                                          " of 50 samples; nothing is left to train on");
  CHECK(divide(49).train.size() == 1);
}
