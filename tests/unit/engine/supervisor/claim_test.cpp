#include "engine/supervisor/claim.h"

#include <unistd.h>

#include "tests/support/catch.h"
#include "tests/support/in_child.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
namespace fs = std::filesystem;

TEST_CASE("exactly one of many supervisors started for one pass gets it", "[claim]") {
  const test::TempDir attempt;
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i) {
    children.push_back(test::begin_child([&] { return claim_pass(attempt.path(), 1); }));
  }
  int winners = 0;
  for (const pid_t child : children) winners += wait_for(child).code;
  CHECK(winners == 1);
  CHECK(newest_claim(attempt.path())->pass == 1);
  CHECK(liveness(newest_claim(attempt.path())->supervisor) == Liveness::Dead);
}

TEST_CASE("the newest pass counts, and its owner is named", "[claim]") {
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

TEST_CASE("a claim names the owner of a pass in so few bytes that it takes no block", "[claim]") {
  const test::TempDir attempt;
  CHECK(claim_pass(attempt.path(), 1, "812_3", 7));
  const auto claim = newest_claim(attempt.path());
  REQUIRE(claim.has_value());
  CHECK(claim->supervisor == identify(::getpid()));
  CHECK(liveness(claim->supervisor) == Liveness::Alive);
  CHECK(claim->token == 7);
  CHECK(claim->backend_id == "812_3");
  const size_t bytes = fs::read_symlink(attempt.path() / "claim-1").native().size();
  CHECK(bytes - host_name().size() < 40);
}

TEST_CASE("a claim of another boot or host is not taken for a living process's", "[claim]") {
  const test::TempDir attempt;
  REQUIRE(claim_pass(attempt.path(), 1));
  const ProcessIdentity self = newest_claim(attempt.path())->supervisor;
  const auto written = [&](const std::string& boot, const std::string& host) {
    fs::create_symlink(std::to_string(self.pid) + " " + std::to_string(self.start_ticks) + " 0 " +
                           boot + " " + host,
                       attempt.path() / "claim-2");
    return liveness(newest_claim(attempt.path())->supervisor);
  };
  SECTION("boot") { CHECK(written("0123456789ab", self.host) == Liveness::Dead); }
  SECTION("host") { CHECK(written(self.boot_id, self.host + "2") == Liveness::Unknown); }
}

TEST_CASE("claims that an earlier dlflow wrote as JSON are read, and damaged ones refused",
          "[claim]") {
  const test::TempDir attempt;
  Json json = to_json(*identify(::getpid()));
  json["token"] = 7;
  json["backend_id"] = "812";
  fs::create_symlink(json.dump(), attempt.path() / "claim-1");
  const auto claim = newest_claim(attempt.path());
  REQUIRE(claim.has_value());
  CHECK(liveness(claim->supervisor) == Liveness::Alive);
  CHECK(claim->token == 7);
  CHECK(claim->backend_id == "812");
  fs::create_symlink(GENERATE("17 x 0 0123456789ab n1", "17 4 0 0123456789ab", "{", "x"),
                     attempt.path() / "claim-2");
  CHECK_THROWS_WITH(newest_claim(attempt.path()), Catch::Contains("claim-2 is damaged"));
}
