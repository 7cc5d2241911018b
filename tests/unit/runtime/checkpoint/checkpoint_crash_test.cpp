#include <sys/syscall.h>

#include <cerrno>
#include <cstdint>

#include "runtime/checkpoint/checkpoint.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/syscalls.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/runtime/checkpoint/sample_checkpoint.h"

using namespace dlflow;
using namespace dlflow::runtime;
using test::SampleCheckpoint;
namespace fs = std::filesystem;

TEST_CASE("a writer killed at any system call leaves a usable checkpoint", "[checkpoint]") {
  const test::TempDir folder;
  const fs::path before = folder.path() / "before";
  for (const uint64_t step : {1, 2}) save_checkpoint(before, SampleCheckpoint(step).content(), 2);

  bool finished = false;
  size_t num_calls = 0;
  for (; !finished; ++num_calls) {
    CAPTURE(num_calls);
    const fs::path after = folder.path() / "after";
    fs::remove_all(after);
    fs::copy(before, after, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    const auto calls = test::run_until_syscall(
        num_calls, finished, [&] { save_checkpoint(after, SampleCheckpoint(3).content(), 2); });
    if (!calls) {
      test::skip("processes cannot be traced");
      return;
    }
    const LatestCheckpoint latest = latest_valid(after);
    REQUIRE(latest.path.has_value());
    REQUIRE(latest.rejected.empty());
    const uint64_t step = load_checkpoint(*latest.path).info.step;
    REQUIRE((finished ? step == 3 : step == 2 || step == 3));
    REQUIRE(fs::exists(after / "latest" / "manifest.json"));

    save_checkpoint(after, SampleCheckpoint(4).content(), 1);
    REQUIRE(std::distance(fs::directory_iterator(after), {}) == 2);  // step-000004 and latest
  }
  CHECK(num_calls > 30);
}

TEST_CASE("a failed write is reported with its reason, and older checkpoints stay",
          "[checkpoint]") {
  const test::TempDir folder;
  for (const uint64_t step : {1, 2}) {
    save_checkpoint(folder.path(), SampleCheckpoint(step).content(), 2);
  }
  constexpr int kTold = 3;
  const uint64_t call = GENERATE(SYS_write, SYS_fsync, SYS_rename, SYS_symlink);
  CAPTURE(call);
  const auto ended = test::run_without(call, ENOSPC, [&] {
    try {
      save_checkpoint(folder.path(), SampleCheckpoint(3).content(), 1);
    } catch (const Error& error) {
      const std::string what = error.what();
      ::_exit(what.find(": No space left on device") != what.npos ? kTold : 4);
    }
  });
  if (!ended) return test::skip("processes cannot be traced");
  CHECK(*ended == kTold);
  CHECK(load_checkpoint(folder.path() / "step-000001").info.step == 1);
  CHECK(load_checkpoint(folder.path() / "step-000002").info.step == 2);
  CHECK(fs::read_symlink(folder.path() / "latest") == "step-000002");
}

TEST_CASE("a failed sync of a file of tensors is reported", "[checkpoint]") {
  const test::TempDir folder;
  constexpr int kTold = 3;
  const auto ended = test::run_without(SYS_fsync, EIO, [&] {
    try {
      write_safetensors(folder.path() / "t", {});
    } catch (const Error& error) {
      ::_exit(kTold);
    }
  });
  if (!ended) return test::skip("processes cannot be traced");
  CHECK(*ended == kTold);
}

TEST_CASE("everything is synced before the folder gets its name", "[checkpoint]") {
  const test::TempDir folder;
  save_checkpoint(folder.path(), SampleCheckpoint(1).content(), 9);
  const auto order = test::order_of_syncs(
      [&] { save_checkpoint(folder.path(), SampleCheckpoint(2).content(), 9); });
  if (!order) return test::skip("processes cannot be traced");
  CHECK(*order ==
        "rename "                // moves a damaged step-000002 away, if there is one
        "sync sync "             // the tensors
        "sync rename sync "      // state.json, then their folder
        "sync rename sync "      // manifest.json, then their folder
        "rename sync "           // step-000002.tmp.* -> step-000002
        "symlink rename sync");  // latest
}

TEST_CASE("a new folder of checkpoints is synced with the folders above it", "[checkpoint]") {
  const test::TempDir folder;
  const auto order_below = [&](const fs::path& checkpoints) {
    return test::order_of_syncs(
        [&] { save_checkpoint(checkpoints, SampleCheckpoint(1).content(), 9); });
  };
  const auto order = order_below(folder.path() / "checkpoints");
  if (!order) return test::skip("processes cannot be traced");
  CHECK_THAT(*order, Catch::StartsWith("sync rename "));
  CHECK_THAT(*order_below(folder.path() / "a" / "b" / "checkpoints"),
             Catch::StartsWith("sync sync sync rename "));
  const fs::path made_by_others = folder.path() / "made";
  fs::create_directory(made_by_others);
  CHECK_THAT(*order_below(made_by_others), Catch::StartsWith("sync rename "));
}
