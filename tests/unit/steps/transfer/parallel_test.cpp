#include "steps/transfer/parallel.h"

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "steps/transfer/limits.h"
#include "steps/transfer/stop_signal.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"

using namespace dlflow;
using namespace dlflow::steps;
using namespace std::chrono_literals;

TEST_CASE("every piece of work is done once, on no more threads than allowed", "[parallel]") {
  const size_t num_threads = GENERATE(1, 3, 200);
  std::vector<std::atomic<int>> done(100);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  for_each_parallel(done.size(), num_threads, [&](size_t i) {
    ++done[i];
    const std::scoped_lock lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  for (const auto& count : done) CHECK(count == 1);
  CHECK(threads.size() <= num_threads);
  for_each_parallel(0, num_threads, [](size_t) { FAIL("there is nothing to do"); });
}

TEST_CASE("one error does not end other work, and all are reported in order", "[parallel]") {
  std::atomic<int> done = 0;
  const auto work = [&](size_t i) {
    ++done;
    if (i % 2 == 1) throw Error(Errc::NotFound, "no file " + std::to_string(i));
  };
  CHECK_THAT(test::error_of([&] { for_each_parallel(40, 4, work); }, Errc::NotFound),
             Catch::StartsWith("no file 1\nno file 3\n") &&
                 Catch::EndsWith("no file 19\n20 of 40 failed"));
  CHECK(done == 40);
  CHECK_THROWS_WITH(for_each_parallel(2, 2, work), "no file 1");
}

TEST_CASE("after a stop, no further work begins", "[parallel]") {
  std::atomic<int> done = 0;
  CHECK_THROWS_AS(for_each_parallel(1000, 2,
                                    [&](size_t) {
                                      ++done;
                                      throw Stopped{};
                                    }),
                  Stopped);
  CHECK(done <= 2);
}

TEST_CASE("a transfer that makes progress is retried forever, any other only a few times",
          "[retry]") {
  uint64_t bytes = 0;
  int tries = 0;
  const auto fail = [&](Errc code) {
    ++tries;
    if (tries <= 10) ++bytes;
    throw Error(code, "broken");
  };
  const RetryPolicy quick{.max_tries = 3, .first_wait = 1ms};
  CHECK_THROWS_WITH(with_retries(
                        quick, [&] { return bytes; }, [&] { fail(Errc::Unavailable); }),
                    "broken");
  CHECK(tries == 12);
  CHECK_THROWS_WITH(with_retries(
                        quick, [&] { return bytes; }, [&] { fail(Errc::NotFound); }),
                    "broken");
  CHECK(tries == 13);
}

TEST_CASE("the bandwidth is divided among the active transfers", "[limits]") {
  const TransferLimits limits{.parallel = 4, .bytes_per_second = 1000};
  CHECK(limits.share(1) == 1000);
  CHECK(limits.share(100) == 250);
  CHECK(TransferLimits{}.share(3) == 0);
  CHECK(limits.threads(2) == 2);
}
