#include "engine/supervisor/claim.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;

TEST_CASE("of many supervisors started for one pass exactly one gets it", "[claim]") {
  const test::TempDir attempt;
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(claim_pass(attempt.path(), 1) ? 1 : 0);
    children.push_back(child);
  }
  int winners = 0;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    winners += WEXITSTATUS(status);
  }
  CHECK(winners == 1);
  CHECK(newest_claim(attempt.path())->pass == 1);
  CHECK(liveness(newest_claim(attempt.path())->supervisor) == Liveness::Dead);
}

TEST_CASE("the newest pass counts, and its owner is known", "[claim]") {
  const test::TempDir attempt;
  attempt.write("job.json", "{}");
  attempt.write("claim-x", "not a claim");
  CHECK_FALSE(newest_claim(attempt.path()).has_value());
  CHECK_FALSE(newest_claim(attempt.path() / "none").has_value());
  CHECK(claim_pass(attempt.path(), 1));
  CHECK(claim_pass(attempt.path(), 2));
  CHECK(claim_pass(attempt.path(), 2));  // a request that a network file system repeats
  const auto claim = newest_claim(attempt.path());
  REQUIRE(claim.has_value());
  CHECK(claim->pass == 2);
  CHECK(claim->supervisor.pid == ::getpid());
}

TEST_CASE("a process that runs one pass after another has each of them once", "[claim]") {
  const test::TempDir attempt;
  CHECK(claim_pass(attempt.path(), 1, "", 7));
  CHECK_FALSE(claim_pass(attempt.path(), 1, "", 8));  // it was handed over twice
  CHECK(newest_claim(attempt.path())->token == 7);
}
