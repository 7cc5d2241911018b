#include "runtime/checkpoint/background_save.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <latch>
#include <thread>

#include "base/error.h"
#include "runtime/checkpoint/checkpoint.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/runtime/checkpoint/sample_checkpoint.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace std::chrono_literals;
using test::SampleCheckpoint;
namespace fs = std::filesystem;

namespace {

fs::path fail() { throw Error(Errc::Unavailable, "cannot write model: No space left on device"); }

}  // namespace

TEST_CASE("a checkpoint is listed once it is on disk, and training does not wait for it",
          "[checkpoint][threads]") {
  const test::TempDir folder;
  std::latch may_write(1);
  BackgroundSave saving(true);
  saving.start([&] {
    may_write.wait();
    return save_checkpoint(folder.path(), SampleCheckpoint(1).content(), 2);
  });
  saving.look();
  CHECK(saving.pending());
  CHECK(saving.last().empty());
  may_write.count_down();
  saving.finish();
  CHECK_FALSE(saving.pending());
  CHECK(saving.last() == folder.path() / "step-000001");
  CHECK(load_checkpoint(saving.last()).info.step == 1);
}

TEST_CASE("an error while saving a checkpoint is thrown by the next poll or wait",
          "[checkpoint][threads]") {
  BackgroundSave saving(true);
  const bool waits = GENERATE(true, false);
  saving.start(fail);
  const auto see = [&] {
    if (waits) return saving.finish();
    while (saving.pending()) {
      saving.look();
      std::this_thread::sleep_for(1ms);
    }
  };
  CHECK_THROWS_WITH(see(), "cannot write model: No space left on device");
  CHECK_FALSE(saving.pending());  // thrown only once
  saving.finish();
  saving.start([] { return fs::path("step-2"); });
  saving.finish();
  CHECK(saving.last() == "step-2");
}

TEST_CASE("the destructor waits for the checkpoint that is being written",
          "[checkpoint][threads]") {
  std::atomic<bool> written = false;
  {
    BackgroundSave saving(true);
    saving.start([&] {
      std::this_thread::sleep_for(20ms);
      written = true;
      return fs::path("step-1");
    });
  }
  CHECK(written);
}

TEST_CASE("the thread that writes a checkpoint in the background has a low priority",
          "[checkpoint][threads]") {
  const auto priority = [] { return ::getpriority(PRIO_PROCESS, id_t(::gettid())); };
  const int before = priority();
  ::setpriority(PRIO_PROCESS, id_t(::gettid()), 0);
  if (priority() >= 5) return test::skip("this test has a low priority, and cannot raise it");
  std::atomic<int> nice = -1;
  BackgroundSave saving(true);
  saving.start([&] {
    nice = priority();
    return fs::path("step-1");
  });
  saving.finish();
  CHECK(nice >= 5);
  saving.run([&] {
    nice = priority();
    return fs::path("step-2");
  });
  CHECK(nice == priority());  // without a thread, the caller writes
  CHECK(saving.last() == "step-2");
  BackgroundSave beside_many(false);
  beside_many.start([&] {
    nice = priority();
    return fs::path("step-3");
  });
  beside_many.finish();
  CHECK(nice == priority());
  ::setpriority(PRIO_PROCESS, id_t(::gettid()), before);
}
