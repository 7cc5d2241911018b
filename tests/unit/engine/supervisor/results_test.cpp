#include "engine/supervisor/results.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/file.h"
#include "engine/plan/run_directory.h"
#include "tests/support/catch.h"
#include "tests/support/kill_at_syscall.h"
#include "tests/support/skip.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;

namespace {

/// A succeeded attempt, about to be published.
struct Attempt {
  Attempt() {
    spec.job_directory = run.path() / "steps" / "step";
    files.attempt = attempt_directory(spec.job_directory, 1);
    make_directories(files.outputs());
  }

  void write(const std::string& output) const {
    run.write(std::filesystem::relative(files.outputs() / output, run.path()), "x");
  }

  /// Publishes it. The system calls that sync something or make links, in order.
  std::optional<std::vector<uint64_t>> publish() const {
    bool finished = false;
    auto calls =
        test::run_until_syscall(SIZE_MAX, finished, [this] { dlflow::publish(spec, files); });
    if (!calls) return calls;
    CHECK(finished);
    std::erase_if(*calls, [](uint64_t call) {
      return call != SYS_fsync && call != SYS_syncfs && call != SYS_symlink;
    });
    return calls;
  }

  test::TempDir run;
  JobSpec spec;
  AttemptFiles files;
};

}  // namespace

TEST_CASE("outputs are on disk before they are published, and that is before it is said",
          "[results]") {
  const Attempt attempt;
  attempt.write("model");
  attempt.write("logs/1");
  std::vector<uint64_t> expected = {SYS_fsync,   SYS_fsync,
                                    SYS_fsync,   SYS_fsync,  // with two folders
                                    SYS_symlink, SYS_fsync};
  SECTION("many in one call") {
    for (int i = 0; i < 20; ++i) attempt.write(std::to_string(i));
    expected = {SYS_syncfs, SYS_symlink, SYS_fsync};
  }
  const auto calls = attempt.publish();
  if (!calls) return test::skip("processes cannot be traced");
  CHECK(*calls == expected);
}

TEST_CASE("a step without outputs waits for no disk", "[results]") {
  const auto calls = Attempt().publish();
  if (!calls) return test::skip("processes cannot be traced");
  CHECK(*calls == std::vector<uint64_t>{SYS_symlink});
}
