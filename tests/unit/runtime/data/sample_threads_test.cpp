#include "runtime/data/sample_threads.h"

#include <atomic>
#include <stdexcept>
#include <string>

#include "tests/support/catch.h"

using namespace dlflow::runtime;

TEST_CASE("threads carry out each item once, round after round", "[data][threads]") {
  const size_t others = GENERATE(1, 3);
  SampleThreads threads(others);
  for (const size_t count : {0, 1, 2, 100, 3}) {
    std::vector<std::atomic<int>> done(count);
    std::atomic<size_t> highest_thread = 0;
    threads.run(count, [&](size_t item, size_t thread) {
      ++done[item];
      if (thread > highest_thread) highest_thread = thread;
    });
    for (const auto& times : done) CHECK(times == 1);
    CHECK(highest_thread <= others);
  }
}

TEST_CASE("the first failed item's error is reported, and the threads stay usable",
          "[data][threads]") {
  SampleThreads threads(3);
  for (int round = 0; round < 20; ++round) {
    std::string told;
    try {
      threads.run(50, [](size_t item, size_t) {
        if (item >= 17) throw std::runtime_error(std::to_string(item));
      });
    } catch (const std::runtime_error& error) {
      told = error.what();
    }
    CHECK(told == "17");
  }
  std::atomic<int> done = 0;
  threads.run(5, [&](size_t, size_t) { ++done; });
  CHECK(done == 5);
}
