#include "runtime/collectives/task.h"

#include <chrono>
#include <stdexcept>

#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace std::chrono_literals;

namespace {

/// Alternates between None and Some for some time.
class Slow final : public Wait {
 public:
  explicit Slow(std::chrono::milliseconds duration)
      : end_(std::chrono::steady_clock::now() + duration) {}

  Progress poll() override {
    if (std::chrono::steady_clock::now() >= end_) return Progress::Done;
    return ++polls_ % 2 == 0 ? Progress::Some : Progress::None;
  }
  int peer() const override { return 1; }

 private:
  std::chrono::steady_clock::time_point end_;
  int polls_ = 0;
};

Task wait_for(bool& first, bool& second, int& begun) {
  begun = 1;
  co_await Until(5, [&] { return first; });
  begun = 2;
  co_await Until(6, [&] { return second; });
  begun = 3;
}

Task fail_after(bool& first) {
  co_await Until(5, [&] { return first; });
  throw std::runtime_error("it failed");
}

Task outer(Task inner) { co_await inner; }

}  // namespace

TEST_CASE("a task begins with its first poll, and each poll advances it as far as possible",
          "[collectives]") {
  bool first = false, second = false;
  int begun = 0;
  Task task = wait_for(first, second, begun);
  CHECK(begun == 0);
  CHECK(task.peer() == -1);
  CHECK(task.poll() == Progress::Some);  // the task began
  CHECK(begun == 1);
  CHECK(task.peer() == 5);
  CHECK(task.poll() == Progress::None);
  first = true;
  CHECK(task.poll() == Progress::Some);
  CHECK(begun == 2);
  CHECK(task.peer() == 6);
  second = true;
  CHECK(task.poll() == Progress::Done);
  CHECK(begun == 3);
  CHECK(task.poll() == Progress::Done);

  begun = 0;
  Task at_once = wait_for(first, second, begun);
  CHECK(at_once.poll() == Progress::Done);
  CHECK(begun == 3);
}

TEST_CASE("an error in a task reaches the caller of poll, through all waiting tasks",
          "[collectives]") {
  bool first = false;
  Task task = outer(fail_after(first));
  CHECK(task.poll() == Progress::Some);
  CHECK(task.peer() == 5);
  first = true;
  CHECK_THROWS_WITH(task.poll(), "it failed");
}

TEST_CASE("a task that makes progress has no timeout", "[collectives]") {
  ThreadGroup group(2, 1ms);
  Slow slow(50ms);
  run(group.communicator(0), slow);
  CHECK(slow.poll() == Progress::Done);
}
