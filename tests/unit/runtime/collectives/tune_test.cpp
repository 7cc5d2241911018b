#include "runtime/collectives/tune.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "runtime/collectives/rules_file.h"
#include "runtime/collectives/timing.h"
#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;
using namespace std::chrono_literals;

TEST_CASE("tuning measures what can be used, and all ranks get the same rules", "[collectives]") {
  const int ranks_per_node = GENERATE(1, 2, 4);
  ThreadGroup group(4, 10s, ranks_per_node);
  std::vector<std::string> ways;  // of rank 0
  const auto rules = on_ranks(group, 4, [&](Communicator& comm) {
    return to_text(tune(comm, 256, 0, [&](const TuneLine& line) {
      if (comm.rank() != 0 || line.bytes != 256) return;
      for (const auto& time : line.times) ways.push_back(time.way);
    }));
  });
  CHECK(rules == std::vector(4, rules[0]));
  CHECK(to_text(parse_rules(rules[0], "tune")) == rules[0]);
  std::vector<std::string> expected = {"recursive_doubling", "rabenseifner", "ring", "tree",
                                       "direct"};
  if (ranks_per_node == 4) expected.insert(expected.begin(), "shm");
  if (ranks_per_node == 2) {
    for (const std::string& way : std::vector(expected)) {
      expected.push_back("hierarchical+" + way);
    }
    CHECK(rules[0].find("between_nodes=") != std::string::npos);
  }
  std::ranges::sort(ways);
  std::ranges::sort(expected);
  CHECK(ways == expected);
}

TEST_CASE("a wrong sum is no result", "[collectives]") {
  const DataType type = GENERATE(from_range(kDataTypes));
  const auto errors = on_ranks(2, [type](Communicator& comm) -> std::string {
    std::vector<std::byte> bytes(10 * size_of(type));
    std::vector<Contender> lazy = {{"lazy", {bytes.data(), 10, type}, [] {}}};
    try {
      take_turns(comm, lazy, 0.001);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  });
  CHECK_THAT(errors[1], Catch::StartsWith("lazy gave 2.000000 where 3.000000 is the sum"));
}

TEST_CASE("a cluster's rules are kept by shape", "[collectives]") {
  const TempDir folder;
  const auto path = folder.path() / "cache/collectives.txt";
  const RuleSet first = parse_rules("allreduce=shm:0-max", "");
  const RuleSet second = parse_rules("allreduce=ring:0-max between_nodes=tree:0-max", "");
  store_rules(path, "1x4", first, "monday");
  store_rules(path, "2x4", first, "monday");
  store_rules(path, "2x4", second, "tuesday");

  const std::string text = read_file(path);
  CHECK(text ==
        "1x4 allreduce=shm:0-max  # monday\n"
        "2x4 allreduce=ring:0-max between_nodes=tree:0-max  # tuesday\n");
  CHECK(rules_for_shape(text, "2x4", path) == second);
  CHECK(rules_for_shape(text, "1x4", path) == first);
  CHECK(rules_for_shape(text, "1x2", path) == RuleSet{});
  CHECK_THROWS_WITH(rules_for_shape(text + "4x1 allreduce=rng:0-max", "4x1", "f"),
                    Catch::StartsWith("f:3: 'rng' is no algorithm"));
}
