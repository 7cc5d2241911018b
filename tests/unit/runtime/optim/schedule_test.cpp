#include "runtime/optim/schedule.h"

#include "tests/support/catch.h"

using namespace dlflow::runtime;

TEST_CASE("a constant rate without warm-up is always the peak", "[optim]") {
  const Schedule schedule{.peak_rate = 0.5};
  CHECK(learning_rate(schedule, 0) == 0.5);
  CHECK(learning_rate(schedule, 1000000) == 0.5);
}

TEST_CASE("warm-up rises linearly and reaches the peak with its last step", "[optim]") {
  const Schedule schedule{.peak_rate = 0.4, .warmup_steps = 4};
  CHECK(learning_rate(schedule, 0) == Approx(0.1));
  CHECK(learning_rate(schedule, 1) == Approx(0.2));
  CHECK(learning_rate(schedule, 3) == Approx(0.4));
  CHECK(learning_rate(schedule, 4) == Approx(0.4));
}

TEST_CASE("a cosine falls from the peak to zero and stays there", "[optim]") {
  const Schedule schedule{Schedule::Course::Cosine, 1.0, 2, 10};
  CHECK(learning_rate(schedule, 1) == Approx(1.0));
  CHECK(learning_rate(schedule, 2) == Approx(1.0));
  CHECK(learning_rate(schedule, 4) == Approx(0.853553390593));  // (1 + cos 45 degrees) / 2
  CHECK(learning_rate(schedule, 6) == Approx(0.5));
  CHECK(learning_rate(schedule, 9) > 0);
  CHECK(learning_rate(schedule, 10) == 0);
  CHECK(learning_rate(schedule, 11) == 0);
}

TEST_CASE("a run that consists of warm-up never divides by zero", "[optim]") {
  const Schedule schedule{Schedule::Course::Cosine, 1.0, 3, 3};
  CHECK(learning_rate(schedule, 2) == Approx(1.0));
  CHECK(learning_rate(schedule, 3) == 0);
}

TEST_CASE("a rate scales with the batch by the chosen rule", "[optim]") {
  CHECK(scaled_rate(0.1, RateScaling::None, 16) == 0.1);
  CHECK(scaled_rate(0.1, RateScaling::Linear, 16) == Approx(1.6));
  CHECK(scaled_rate(0.1, RateScaling::Sqrt, 16) == Approx(0.4));
  CHECK(scaled_rate(0.1, RateScaling::Sqrt, 0.25) == Approx(0.05));
}

TEST_CASE("a rate ends at its minimum, and stays above it after the warm-up", "[optim]") {
  using Course = Schedule::Course;
  for (const Course course : {Course::Cosine, Course::Polynomial, Course::OneCycle}) {
    const Schedule schedule{course, 1.0, 2, 10, 0.25};
    CHECK(learning_rate(schedule, 2) == Approx(1.0));
    CHECK(learning_rate(schedule, 6) == Approx(0.625));  // halfway
    CHECK(learning_rate(schedule, 10) == Approx(0.25));
    CHECK(learning_rate(schedule, 99) == Approx(0.25));
  }
  CHECK(learning_rate({Course::Steps, 1.0, 0, 10, 0.25, 1, 0.1, {1, 2}}, 5) == 0.25);
  CHECK(learning_rate({Course::InverseSqrt, 1.0, 1, 10, 0.25}, 999) == 0.25);
}

TEST_CASE("a polynomial rate falls by its power", "[optim]") {
  const Schedule schedule{Schedule::Course::Polynomial, 1.0, 0, 10, 0, 2};
  CHECK(learning_rate(schedule, 0) == Approx(1.0));
  CHECK(learning_rate(schedule, 5) == Approx(0.25));
}

TEST_CASE("a rate in steps is multiplied at each step and stays", "[optim]") {
  const Schedule schedule{Schedule::Course::Steps, 1.0, 0, 10, 0, 1, 0.5, {4, 6}};
  CHECK(learning_rate(schedule, 3) == 1.0);
  CHECK(learning_rate(schedule, 4) == 0.5);
  CHECK(learning_rate(schedule, 5) == 0.5);
  CHECK(learning_rate(schedule, 6) == 0.25);
}

TEST_CASE("one cycle begins with a 25th of its peak", "[optim]") {
  const Schedule schedule{Schedule::Course::OneCycle, 1.0, 4, 10};
  CHECK(learning_rate(schedule, 1) == Approx(0.52));  // halfway up
  CHECK(learning_rate(schedule, 3) == Approx(1.0));
}

TEST_CASE("an inverse square root goes on from the peak at the end of the warm-up", "[optim]") {
  const Schedule schedule{Schedule::Course::InverseSqrt, 1.0, 4, 10};
  CHECK(learning_rate(schedule, 3) == Approx(1.0));
  CHECK(learning_rate(schedule, 15) == Approx(0.5));
}

TEST_CASE("an inverse square root without a warm-up begins with the peak", "[optim]") {
  const Schedule schedule{Schedule::Course::InverseSqrt, 1.0};
  CHECK(learning_rate(schedule, 0) == Approx(1.0));
  CHECK(learning_rate(schedule, 3) == Approx(0.5));
}

TEST_CASE("the minimum applies only after the warm-up", "[optim]") {
  const Schedule schedule{Schedule::Course::Constant, 1.0, 4, 10, 0.5};
  CHECK(learning_rate(schedule, 0) == Approx(0.25));
  CHECK(learning_rate(schedule, 4) == Approx(1.0));
}
