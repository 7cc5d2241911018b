#include "runtime/watch/report.h"

#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace std::chrono_literals;

namespace {

const std::vector<std::string> kNodes = {"a", "a", "b", "b", "c"};

/// The calls of a rank that has made `same` barriers, then `last`.
RankCalls calls_of(int rank, size_t same, const Call& last) {
  CallLog log;
  for (size_t i = 0; i < same; ++i) log.add({"barrier"});
  log.add(last);
  return {rank, log.recent()};
}

}  // namespace

TEST_CASE("a single rank is named with its node, several ranks as ranges", "[watch]") {
  CHECK(name_of({3}, kNodes) == "rank 3 (node b)");
  CHECK(name_of({0, 1}, kNodes) == "ranks 0-1");
  CHECK(name_of({0, 2}, kNodes) == "ranks 0, 2");
  CHECK(name_of({0, 1, 2, 4}, kNodes) == "ranks 0-2, 4");
  CHECK(name_of({0, 2, 3, 4}, kNodes) == "ranks 0, 2-4");
  std::vector<int> fewer = {0, 1, 2};
  fewer.pop_back();  // 2 stays in memory after the last one
  CHECK(name_of(fewer, kNodes) == "ranks 0-1");
}

TEST_CASE("times are given in seconds", "[watch]") {
  CHECK(seconds_of(60s) == "60 s");
  CHECK(seconds_of(900ms) == "0.9 s");
  CHECK(describe_loss("rank 1 (node a)") ==
        "rank 1 (node a) died: killed, crashed, or its node went down");
}

TEST_CASE("the smallest group is named first, on a tie that of the lowest rank", "[watch]") {
  const Call barrier{"barrier"}, end{"end"};
  CHECK(describe_difference({calls_of(0, 2, barrier), calls_of(1, 2, end), calls_of(2, 2, barrier)},
                            kNodes) ==
        "call 3 is not the same on all ranks: rank 1 (node a) end; ranks 0, 2 barrier; start all "
        "ranks with the same program, model and options");
  CHECK_THAT(describe_difference({calls_of(0, 0, end), calls_of(1, 0, barrier)}, kNodes),
             Catch::Contains("ranks: rank 0 (node a) end; rank 1 (node a) barrier;"));
  CHECK_THAT(describe_difference({calls_of(0, 0, barrier), calls_of(1, 0, end)}, kNodes),
             Catch::Contains("ranks: rank 0 (node a) barrier; rank 1 (node a) end;"));
  CHECK(describe_difference({calls_of(0, 3, barrier), calls_of(1, 4, barrier)}, kNodes).empty());
}

TEST_CASE("a call that a rank no longer logs is not named as the first difference", "[watch]") {
  const Call other{"broadcast", "", 4, "bytes", 0};
  const auto of = [&](size_t same) {
    CallLog one, two;
    one.add({"barrier"});
    two.add(same == 0 ? other : Call{"barrier"});
    for (size_t i = 1; i < CallLog::kKept + 1; ++i) {
      one.add({"barrier"});
      two.add(i == same ? other : Call{"barrier"});
    }
    return describe_difference({{0, one.recent()}, {1, two.recent()}}, kNodes);
  };
  CHECK(of(0).empty());  // call 1 of 4097, of which 4096 are kept
  CHECK(of(1).empty());  // call 2, the first one kept: call 1 may also have differed
  CHECK_THAT(of(2), Catch::StartsWith("call 3 is not the same on all ranks: rank 0 (node a) "
                                      "barrier; rank 1 (node a) broadcast of 4 bytes"));
  CHECK_THAT(of(CallLog::kKept), Catch::StartsWith("call 4097 is not the same"));

  CallLog ahead, behind;  // logs of different lengths: some calls are only in one
  for (size_t i = 0; i < CallLog::kKept + 5; ++i) ahead.add({"barrier"});
  behind.add(other);
  CHECK(describe_difference({{0, ahead.recent()}, {1, behind.recent()}}, kNodes).empty());
}
