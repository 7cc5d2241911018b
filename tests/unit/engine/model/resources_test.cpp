#include "engine/model/resources.h"

#include "tests/support/catch.h"
#include "tests/unit/engine/model/mistakes_of.h"

using namespace dlflow;

namespace {

Resources resources_of(const Json& json) { return resources_from_json(json); }

std::string mistake_in(const std::string& resources) {
  return test::mistakes_of("name: w\nsteps:\n  a: {run: x, resources: {" + resources + "}}\n");
}

}  // namespace

TEST_CASE("nodes and ranks on a node make the number of ranks", "[resources]") {
  const auto layout = [](const Json& json) {
    const Resources resources = resources_of(json);
    return std::pair(resources.ranks, resources.ranks_per_node);
  };
  CHECK(layout(Json::object()) == std::pair(1, 0));
  CHECK(layout({{"ranks", 6}}) == std::pair(6, 0));
  CHECK(layout({{"nodes", 4}}) == std::pair(4, 1));
  CHECK(layout({{"nodes", 4}, {"ranks_per_node", 8}}) == std::pair(32, 8));
  CHECK(layout({{"nodes", 2}, {"ranks", 5}}) == std::pair(5, 3));
  CHECK(layout({{"ranks", 5}, {"ranks_per_node", 4}}) == std::pair(5, 4));
  CHECK(layout({{"nodes", 2}, {"ranks", 5}, {"ranks_per_node", 4}}) == std::pair(5, 4));
}

TEST_CASE("memory is given for the job, a rank or a GPU", "[resources]") {
  const auto memory = [](const Json& json) { return resources_of(json).memory_bytes >> 30; };
  CHECK(memory({{"ranks", 4}, {"memory", "8GiB"}}) == 8);
  CHECK(memory({{"ranks", 4}, {"memory_per_rank", "8GiB"}}) == 32);
  CHECK(memory({{"ranks", 4}, {"gpus_per_rank", 2}, {"memory_per_gpu", "8GiB"}}) == 64);
  CHECK(memory({{"nodes", 2}, {"ranks_per_node", 3}, {"memory_per_rank", "1GiB"}}) == 6);
}

TEST_CASE("resources that are written and read again are the same", "[resources]") {
  const Resources resources = resources_of({{"nodes", 2},
                                            {"ranks_per_node", 4},
                                            {"exclusive", true},
                                            {"memory_per_rank", "2GiB"},
                                            {"walltime", "90s"},
                                            {"licences", {{"matlab@server", 2}, {"abaqus", 1}}}});
  CHECK(resources.exclusive);
  CHECK(resources.licences == std::map<std::string, int>{{"abaqus", 1}, {"matlab@server", 2}});
  CHECK(resources_of(to_json(resources)) == resources);
}

TEST_CASE("resources that contradict each other are refused", "[resources]") {
  CHECK(mistake_in("memory: 1GiB, memory_per_gpu: 1GiB, gpus_per_rank: 1") ==
        "w.yaml:3:26: error: resources of step 'a': memory and memory_per_gpu cannot be used "
        "together; remove one");
  CHECK_THAT(mistake_in("memory_per_gpu: 1GiB"),
             Catch::Contains("memory_per_gpu needs gpus_per_rank, which is 0"));
  CHECK_THAT(mistake_in("nodes: 3, ranks: 2"), Catch::Contains("leave nodes without a rank"));
  CHECK_THAT(mistake_in("nodes: 2, ranks: 8, ranks_per_node: 2"),
             Catch::Contains("are 4 ranks on a node, not ranks_per_node: 2; leave out one"));
  for (const char* const many : {"nodes: 65536, ranks_per_node: 65536", "ranks: 2000000000"}) {
    CHECK_THAT(mistake_in(many), Catch::Contains("ask for more than 16,777,216 ranks"));
  }
  CHECK_THAT(mistake_in("licences: {'a b': 1}"), Catch::Contains("is not the name of a licence"));
  CHECK(mistake_in("nodes: 2, ranks: \"${{ 2 }}\"").empty());
}

TEST_CASE("a contradiction of one element is found when its values are known", "[resources]") {
  CHECK_THROWS_WITH(resources_of({{"nodes", 3}, {"ranks", 2}}),
                    Catch::Contains("resources: nodes: 3 and ranks: 2 leave nodes without a rank"));
}
