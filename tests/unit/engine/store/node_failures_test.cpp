#include "base/file.h"
#include "tests/support/catch.h"
#include "tests/unit/engine/store/store_fixture.h"

using namespace dlflow;
using namespace dlflow::test;

namespace {

JobEvent lost(const JobName& job, int attempt, const std::string& node, int seconds) {
  JobEvent lost = event(job, attempt, JobState::Lost, seconds);
  lost.failed_node = node;
  return lost;
}

/// A run on a cluster.
Plan run_on(StoreFixture& fixture, const std::string& cluster, Time created) {
  Plan plan = fixture.stored_run(kMnist, created);
  write_file_atomic(plan.directory / "cluster", cluster);
  return plan;
}

std::vector<std::string> words(StoreFixture& fixture) {
  std::vector<std::string> words;
  for (const NodeFailure& failure : fixture.store.node_failures()) {
    words.push_back(failure.cluster + " " + failure.node + " " + failure.job);
  }
  return words;
}

}  // namespace

TEST_CASE("a failed node is remembered, also when its run is removed", "[store]") {
  StoreFixture fixture;
  const Plan alpha = run_on(fixture, "alpha", at(0));
  const Plan beta = run_on(fixture, "beta", at(1));
  const std::vector<JobEvent> events = {lost("data", 1, "n2", 10),
                                        lost("train[lr=0.1]", 1, "n1", 9),
                                        event("train[lr=0.5]", 1, JobState::Failed, 11)};
  fixture.store.record(alpha.run, events);
  fixture.store.record(alpha.run, events);  // recorded twice
  const JobEvent other = lost("data", 1, "n2", 12);
  fixture.store.record(beta.run, {&other, 1});
  const std::vector<std::string> all = {"alpha n1 train[lr=0.1]", "alpha n2 data", "beta n2 data"};
  CHECK(words(fixture) == all);
  fixture.store.forget(alpha.run);
  CHECK(words(fixture) == all);
}

TEST_CASE("only later failures of a forgiven node count", "[store]") {
  StoreFixture fixture;
  const Plan plan = run_on(fixture, "alpha", at(0));
  const std::vector<JobEvent> before = {lost("data", 1, "n2", 10), lost("data", 2, "n3", 11)};
  fixture.store.record(plan.run, before);
  CHECK_FALSE(fixture.store.forgive_node("beta", "n2", at(20)));
  CHECK(fixture.store.forgive_node("alpha", "n2", at(20)));
  CHECK(words(fixture) == std::vector<std::string>{"alpha n3 data"});
  CHECK_FALSE(fixture.store.forgive_node("alpha", "n2", at(21)));
  const JobEvent after = lost("data", 3, "n2", 30);
  fixture.store.record(plan.run, {&after, 1});
  CHECK(words(fixture) == std::vector<std::string>{"alpha n2 data", "alpha n3 data"});
}

TEST_CASE("a failure on an unknown cluster counts for no node", "[store]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kMnist);
  const JobEvent event = lost("data", 1, "n2", 10);
  fixture.store.record(plan.run, {&event, 1});
  CHECK(words(fixture).empty());
}
