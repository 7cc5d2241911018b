#include "engine/run/failing_nodes.h"

#include "base/file.h"
#include "tests/support/catch.h"
#include "tests/unit/engine/store/store_fixture.h"

using namespace dlflow;
using namespace dlflow::test;

namespace {

void lose(StoreFixture& fixture, const Plan& plan, const std::string& node, int attempt) {
  JobEvent lost = event("data", attempt, JobState::Lost, 10 + attempt);
  lost.failed_node = node;
  fixture.store.record(plan.run, {&lost, 1});
}

}  // namespace

TEST_CASE("a node is left out on its own cluster, after a number of failures", "[nodes]") {
  StoreFixture fixture;
  const Plan alpha = fixture.stored_run(kMnist, at(0));
  const Plan beta = fixture.stored_run(kMnist, at(1));
  write_file_atomic(alpha.directory / "cluster", "alpha");
  write_file_atomic(beta.directory / "cluster", "beta");
  lose(fixture, alpha, "n1", 1);
  lose(fixture, alpha, "n1", 2);
  lose(fixture, alpha, "n2", 3);
  lose(fixture, beta, "n3", 1);
  lose(fixture, beta, "n3", 2);
  using Nodes = std::vector<std::string>;
  CHECK(nodes_to_exclude(fixture.store, "alpha", 2) == Nodes{"n1"});
  CHECK(nodes_to_exclude(fixture.store, "beta", 2) == Nodes{"n3"});
  CHECK(nodes_to_exclude(fixture.store, "alpha", 1) == Nodes{"n1", "n2"});
  CHECK(nodes_to_exclude(fixture.store, "alpha", 3).empty());
  CHECK(nodes_to_exclude(fixture.store, "alpha", 0).empty());  // none is left out
}
