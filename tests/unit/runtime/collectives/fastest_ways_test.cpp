#include <cstdint>
#include <vector>

#include "runtime/collectives/tune.h"
#include "tests/support/catch.h"

using namespace dlflow::runtime;

namespace {

/// An algorithm whose calls all take the same time.
MeasuredWay way(Algorithm algorithm, double seconds) { return {algorithm, seconds, seconds}; }

constexpr auto kTree = Algorithm::Tree, kRing = Algorithm::Ring, kDirect = Algorithm::Direct;

}  // namespace

TEST_CASE("each size gets its fastest algorithm, sizes in between get that of the larger",
          "[collectives]") {
  FastestWays fastest;
  CHECK(fastest.add(64, std::vector{way(kRing, 2), way(kTree, 1), way(kDirect, 3)}) == 1);
  CHECK(fastest.rules() == Rules{{kTree, 0, SIZE_MAX}});
  CHECK(fastest.add(256, std::vector{way(kRing, 4), way(kTree, 2), way(kDirect, 4)}) == 1);
  CHECK(fastest.add(1024, std::vector{way(kRing, 5), way(kTree, 9), way(kDirect, 6)}) == 0);
  CHECK(fastest.add(4096, std::vector{way(kRing, 7), way(kTree, 9), way(kDirect, 5)}) == 2);
  CHECK(fastest.rules() == Rules{{kTree, 0, 256}, {kRing, 256, 1024}, {kDirect, 1024, SIZE_MAX}});
}

TEST_CASE("rules between nodes count the bytes of the slices that are sent", "[collectives]") {
  FastestWays fastest(4);
  fastest.add(64, std::vector{way(kRing, 2), way(kTree, 1)});
  fastest.add(256, std::vector{way(kRing, 1), way(kTree, 2)});
  fastest.add(1024, std::vector{way(kRing, 2), way(kTree, 1)});
  CHECK(fastest.rules() == Rules{{kTree, 0, 16}, {kRing, 16, 64}, {kTree, 64, SIZE_MAX}});
}

TEST_CASE("an algorithm that is hardly faster does not replace that of the smaller size",
          "[collectives]") {
  FastestWays fastest;
  fastest.add(64, std::vector{way(kRing, 100), way(kTree, 99)});  // the first size gets its fastest
  CHECK(fastest.add(256, std::vector{way(kRing, 96), way(kTree, 100)}) == 1);
  CHECK(fastest.add(1024, std::vector{way(kRing, 94), way(kTree, 100)}) == 0);
  CHECK(fastest.rules() == Rules{{kTree, 0, 256}, {kRing, 256, SIZE_MAX}});
}

TEST_CASE("the lower quartile selects the fastest algorithm, the median excludes noise",
          "[collectives]") {
  FastestWays fastest;
  fastest.add(64, std::vector{way(kRing, 1), way(kTree, 2)});
  const std::vector<MeasuredWay> noise = {{kRing, 20, 20}, {kTree, 10, 30}};
  CHECK(fastest.add(256, noise) == 0);
  const std::vector<MeasuredWay> faster = {{kRing, 20, 20}, {kTree, 10, 15}, {kDirect, 11, 10}};
  CHECK(fastest.add(1024, faster) == 1);
}

TEST_CASE("the fastest variant of each algorithm is kept", "[collectives]") {
  constexpr auto kTwoLevels = Algorithm::Hierarchical;
  FastestWays fastest;
  fastest.add(64, std::vector{way(kRing, 9), way(kTwoLevels, 2), way(kTwoLevels, 1)});
  CHECK(fastest.add(256, std::vector{way(kRing, 96), way(kTwoLevels, 200), way(kTwoLevels, 98),
                                     way(kTwoLevels, 99)}) == 2);
  CHECK(fastest.rules() == Rules{{kTwoLevels, 0, SIZE_MAX}});
}

TEST_CASE("the fastest is taken if the smaller size's algorithm was not measured",
          "[collectives]") {
  FastestWays fastest;
  fastest.add(64, std::vector{way(kRing, 1)});
  CHECK(fastest.add(256, std::vector{way(kDirect, 2), way(kTree, 1)}) == 1);
  CHECK(fastest.rules() == Rules{{kRing, 0, 64}, {kTree, 64, SIZE_MAX}});
}
