#include "runtime/watch/judge.h"

#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace std::chrono_literals;

namespace {

/// Rank 0's judge over `num_ranks` ranks, on nodes of two, with a clock that the test advances.
/// Each rank sends a pulse whenever time passes, unless it is `silent`.
struct Court {
  explicit Court(int num_ranks) : logs(size_t(num_ranks)), pulses(size_t(num_ranks)) {
    for (int rank = 0; rank < num_ranks; ++rank) {
      judge_.emplace(num_ranks, logs[0], WatchLimits{10s, 60s});
    }
    for (int rank = 0; rank < num_ranks; ++rank) {
      judge_->joined(rank, "n" + std::to_string(rank / 2), now);
    }
  }

  void call(int rank, const Call& call) {
    logs[size_t(rank)].add(call);
    ++pulses[size_t(rank)].progress;
  }

  /// Makes the ranks `waiting` wait in a call.
  void wait(const std::vector<int>& waiting) {
    for (const int rank : waiting) {
      call(rank, {"barrier"});
      pulses[size_t(rank)].waits = true;
    }
  }

  /// Lets `time` pass, a second at a time.
  Judge::Opinion pass(std::chrono::seconds time) {
    for (Judge::Opinion opinion;; time -= 1s) {
      for (size_t rank = 0; rank < pulses.size(); ++rank) {
        if (int(rank) == silent ||
            (behind_silent.first <= int(rank) && int(rank) <= behind_silent.second))
          continue;
        const CallLog::Head head = logs[rank].head();
        pulses[rank].calls = head.count;
        pulses[rank].hash = head.hash;
        if (int(rank) == computing) ++pulses[rank].progress;
        judge_->heard(int(rank), pulses[rank], now);
      }
      opinion = judge_->look(now);
      if (time == 0s || opinion.verdict || opinion.asks || !opinion.warning.empty()) return opinion;
      now += 1s;
    }
  }

  /// Lets `time` pass without a pulse of any rank.
  Judge::Opinion pass_and_look(std::chrono::milliseconds time) {
    now += time;
    return judge_->look(now);
  }

  Judge& judge() { return *judge_; }

  std::vector<CallLog> logs;
  std::vector<Pulse> pulses;
  int silent = -1, computing = -1;
  std::pair<int, int> behind_silent{1, 0};  // the first and the last rank
  Judge::Time now{};

 private:
  std::optional<Judge> judge_;
};

std::string text(const Judge::Opinion& opinion) {
  return opinion.verdict ? opinion.verdict->what() : "";
}

}  // namespace

TEST_CASE("a rank may leave when its work is done, any other that leaves is reported", "[watch]") {
  Court court(3);
  court.judge().done(1);
  court.judge().lost(1, court.now);
  court.computing = 2;  // the others are busy
  const Judge::Opinion opinion = court.pass(300s);
  CHECK_FALSE(opinion.verdict);
  CHECK(opinion.warning.empty());
  CHECK_FALSE(court.judge().all_done());

  court.judge().lost(2, court.now);
  court.silent = 2;
  CHECK_THAT(text(court.pass(1s)), Catch::Contains("rank 2") && !Catch::Contains("rank 1"));
}

TEST_CASE("a silent rank is named without the ranks connected through it", "[watch]") {
  Court court(40);
  court.silent = 1;
  court.behind_silent = {33, 39};
  court.wait({0, 2, 3, 32});
  const Judge::Opinion opinion = court.pass(300s);
  CHECK_THAT(opinion.warning, Catch::StartsWith("rank 1 (node n0): silent for 10 s"));
  CHECK_THAT(text(court.pass(300s)), Catch::StartsWith("rank 1 (node n0): silent for 60 s"));
}

TEST_CASE("ranks connected through one that left when done are not judged", "[watch]") {
  Court court(40);
  court.judge().done(1);
  court.judge().lost(1, court.now);
  court.silent = 1;
  court.behind_silent = {33, 39};
  court.wait({0, 2, 3, 32});
  court.computing = 4;
  CHECK_THAT(court.pass(300s).warning, Catch::StartsWith("ranks 5-31: no progress for 10 s"));
  CHECK_THAT(text(court.pass(300s)), Catch::StartsWith("ranks 5-31: no progress for 60 s"));
}

TEST_CASE("ranks that agree are left alone, even if one is ahead", "[watch]") {
  Court court(3);
  for (int i = 0; i < 5; ++i) court.call(1, {"all-reduce", "w", 10, "fp32"});
  for (int i = 0; i < 3; ++i) court.call(0, {"all-reduce", "w", 10, "fp32"});
  const auto opinion = court.pass(5s);
  CHECK_FALSE(opinion.asks);
  CHECK(text(opinion) == "");
}

TEST_CASE("the first differing call is reported, with all its versions", "[watch]") {
  Court court(4);
  for (int rank = 0; rank < 4; ++rank) {
    court.call(rank, {"barrier"});
    court.call(rank, {"all-reduce", rank == 3 ? "v" : "w", rank == 3 ? 20u : 10u, "fp32"});
    court.call(rank, {"barrier"});
  }
  REQUIRE(court.pass(1s).asks);
  for (int rank = 1; rank < 4; ++rank) {
    CHECK(text(court.pass(0s)) == "");
    court.judge().sent({rank, court.logs[size_t(rank)].recent()});
  }
  const auto opinion = court.pass(0s);
  CHECK(text(opinion) ==
        "call 2 is not the same on all ranks: rank 3 (node n1) all-reduce 'v' of 20 fp32; ranks "
        "0-2 all-reduce 'w' of 10 fp32; start all ranks with the same program, model and options");
  CHECK(opinion.verdict->fault() == Fault::Differs);
}

TEST_CASE("a rank that cannot send its calls is not waited for", "[watch]") {
  Court court(3);
  court.call(0, {"barrier"});
  court.call(1, {"broadcast", "", 4, "bytes", 0});
  court.silent = 2;
  REQUIRE(court.pass(1s).asks);
  court.judge().sent({1, court.logs[1].recent()});
  CHECK_THAT(
      text(court.pass(1s)),
      Catch::StartsWith("call 1 is not the same on all ranks: rank 0 (node n0) barrier; rank "
                        "1 (node n0) broadcast of 4 bytes from rank 0;"));
}

TEST_CASE("ranks that make the differing call a little later are also named", "[watch]") {
  Court court(2);
  court.call(0, {"barrier"});
  court.call(1, {"broadcast", "", 4, "bytes", 0});
  CHECK_FALSE(court.pass(0s).asks);
  CHECK_FALSE(court.pass_and_look(149ms).asks);
  CHECK(court.pass_and_look(1ms).asks);
  CHECK_FALSE(court.pass_and_look(1ms).asks);  // only once
}

TEST_CASE("the comparison waits for calls that can show the difference", "[watch]") {
  Court court(3);
  court.call(0, {"barrier"});
  court.call(1, {"barrier"});
  court.call(2, {"broadcast", "", 4, "bytes", 0});
  REQUIRE(court.pass(1s).asks);
  court.judge().sent({1, court.logs[1].recent()});
  SECTION("it does not wait for a rank that is lost or has left") {
    const bool has_left = GENERATE(false, true);
    if (has_left) court.judge().done(2);
    court.judge().lost(2, court.now);
    CHECK_THAT(text(court.pass_and_look(0ms)), Catch::Contains("too many calls ago to show which"));
  }
  SECTION("it waits for five seconds for a living rank whose calls are needed") {
    CHECK(text(court.pass_and_look(4999ms)) == "");
    CHECK_THAT(text(court.pass_and_look(1ms)), Catch::Contains("too many calls ago to show which"));
  }
  SECTION("it waits for half a second if the other calls show it") {
    Court other(3);
    other.call(0, {"barrier"});
    other.call(1, {"broadcast", "", 4, "bytes", 0});
    other.call(2, {"barrier"});
    REQUIRE(other.pass(1s).asks);
    other.judge().sent({1, other.logs[1].recent()});
    CHECK(text(other.pass_and_look(499ms)) == "");
    CHECK_THAT(text(other.pass_and_look(1ms)), Catch::StartsWith("call 1 is not the same"));
  }
}

TEST_CASE("a stalled rank is not reported while calls are being compared", "[watch]") {
  Court court(3);
  court.wait({0});
  court.computing = 1;
  court.silent = 2;
  court.pass(10s);  // a warning
  CHECK(text(court.pass(49s)) == "");
  court.call(1, {"broadcast", "", 4, "bytes", 0});
  const auto opinion = court.pass(1s);  // rank 2 has reached its limit of silence
  CHECK(opinion.asks);
  CHECK(text(opinion) == "");
  court.judge().sent({1, court.logs[1].recent()});
  CHECK_THAT(text(court.pass_and_look(500ms)), Catch::StartsWith("call 1 is not the same"));
}

TEST_CASE("a rank that is ahead reports differing calls, since rank 0 cannot see them", "[watch]") {
  Court court(2);
  court.call(0, {"barrier"});
  court.call(1, {"broadcast", "", 4, "bytes", 0});
  court.call(1, {"barrier"});
  CHECK_FALSE(court.pass(5s).asks);
  court.judge().differs(1);
  CHECK(court.pass(1s).asks);
}

TEST_CASE("a lost rank is not asked for its calls", "[watch]") {
  Court court(2);
  court.judge().differs(1);
  court.judge().lost(1, court.now);
  CHECK_FALSE(court.pass_and_look(0ms).asks);
  CHECK_THAT(text(court.pass_and_look(50ms)), Catch::StartsWith("rank 1 (node n0) died"));
}

TEST_CASE("ranks that die together are named together", "[watch]") {
  Court court(5);
  court.judge().lost(2, court.now);
  court.judge().lost(3, court.now);
  const auto opinion = court.pass(1s);
  CHECK(text(opinion) == "ranks 2-3 died: killed, crashed, or its node went down");
  CHECK(opinion.verdict->fault() == Fault::Lost);

  Court later(5);
  later.judge().lost(2, later.now);
  CHECK(text(later.pass_and_look(49ms)) == "");
  later.judge().lost(4, later.now);
  CHECK_THAT(text(later.pass_and_look(1ms)), Catch::StartsWith("ranks 2, 4 died"));
}

TEST_CASE("a rank that leaves when its work is done is not lost", "[watch]") {
  Court court(2);
  court.judge().done(1);
  CHECK_FALSE(court.judge().all_done());
  court.judge().done(0);
  CHECK(court.judge().all_done());
  court.judge().lost(1, court.now);
  CHECK(text(court.pass(100s)) == "");
}

TEST_CASE("all ranks throw the error of the rank that threw", "[watch]") {
  Court court(2);
  court.judge().failed(1, Errc::NotFound, "data: No such file or directory", court.now);
  const auto opinion = court.pass(1s);
  CHECK(text(opinion) == "rank 1 (node n0): data: No such file or directory");
  CHECK(opinion.verdict->code() == Errc::NotFound);
  CHECK(opinion.verdict->fault() == Fault::Failed);
}

TEST_CASE("a rank that threw because of a call that differs is not the cause", "[watch]") {
  Court court(2);
  court.call(0, {"barrier"});
  court.call(1, {"broadcast", "", 4, "bytes", 0});
  court.judge().failed(1, Errc::InvalidInput, "expected 4 bytes", court.now);
  REQUIRE(court.pass(1s).asks);
  court.judge().sent({1, court.logs[1].recent()});
  CHECK_THAT(text(court.pass(0s)), Catch::StartsWith("call 1 is not the same"));
}

TEST_CASE("a rank that threw is the cause unless pulses soon show another one", "[watch]") {
  Court court(2);
  court.judge().failed(1, Errc::InvalidInput, "expected 4 bytes", court.now);
  SECTION("pulses show no other cause") {
    CHECK(text(court.pass_and_look(299ms)) == "");
    CHECK(text(court.pass_and_look(1ms)) == "rank 1 (node n0): expected 4 bytes");
  }
  SECTION("pulses show another cause") {
    CHECK(text(court.pass_and_look(200ms)) == "");
    court.call(0, {"barrier"});
    court.call(1, {"broadcast", "", 4, "bytes", 0});
    CHECK(text(court.pass(0s)) == "");
    CHECK(court.pass_and_look(150ms).asks);
  }
}

TEST_CASE("the first rank that threw is reported, by the name in its message", "[watch]") {
  Court court(3);
  court.judge().failed(2, Errc::NotFound, "rank 2: no such file", court.now);
  court.judge().failed(1, Errc::InvalidInput, "something else", court.now);
  const auto opinion = court.pass(1s);
  CHECK(text(opinion) == "rank 2: no such file");
  CHECK(opinion.verdict->code() == Errc::NotFound);
}

TEST_CASE("a verdict that ends all ranks comes without a warning", "[watch]") {
  Court court(2);
  court.wait({0});
  court.pass(0s);
  court.silent = 1;
  court.now += 60s;
  const auto opinion = court.pass(0s);
  CHECK_THAT(text(opinion), Catch::StartsWith("rank 1 (node n0): silent for 60 s"));
  CHECK(opinion.warning.empty());
}

TEST_CASE("a call that is no longer logged has a number and no name", "[watch]") {
  const auto place_of = [](uint64_t call) {
    Court court(2);
    for (size_t i = 0; i < CallLog::kKept + 1; ++i) court.call(0, {"barrier"});
    court.pass(0s);
    court.now += 10s;
    court.pulses[0].calls = call;
    court.pulses[0].waits = true;
    court.judge().heard(0, court.pulses[0], court.now);
    court.judge().heard(1, court.pulses[1], court.now);
    const std::string warning = court.judge().look(court.now).warning;
    return warning.substr(warning.rfind("; ") + 2);
  };
  CHECK(place_of(0) == "rank 0 (node n0) waits in call 0");
  CHECK(place_of(1) == "rank 0 (node n0) waits in call 1");
  CHECK(place_of(2) == "rank 0 (node n0) waits in call 2 (barrier)");
  CHECK(place_of(CallLog::kKept + 1) == "rank 0 (node n0) waits in call 4097 (barrier)");
  CHECK(place_of(CallLog::kKept + 2) == "rank 0 (node n0) waits in call 4098");
}

TEST_CASE("a silent rank that others wait for causes one warning, and ends all after the limit",
          "[watch]") {
  Court court(3);
  court.wait({0, 1});
  court.silent = 2;
  CHECK(court.pass(9s).warning == "");
  CHECK(court.pass(1s).warning ==
        "rank 2 (node n1): silent for 10 s; its process is stopped, or its node cannot be reached; "
        "ranks 0-1 wait in call 1 (barrier)");
  const auto before = court.pass(49s);
  CHECK(before.warning == "");
  CHECK(text(before) == "");
  const auto opinion = court.pass(1s);
  CHECK_THAT(text(opinion), Catch::StartsWith("rank 2 (node n1): silent for 60 s;"));
  CHECK(opinion.verdict->fault() == Fault::Stalled);
}

TEST_CASE("a silent rank is reported although one of the waiting ranks makes progress", "[watch]") {
  Court court(3);
  court.wait({0, 1});
  court.computing = 0;  // its waits end
  court.silent = 2;
  CHECK_THAT(court.pass(10s).warning, Catch::StartsWith("rank 2 (node n1): silent for 10 s;"));
}

TEST_CASE("a rank that does nothing although its process answers is reported as such", "[watch]") {
  Court court(3);
  court.wait({0, 1});
  court.pass(10s);
  CHECK(text(court.pass(60s)) ==
        "rank 2 (node n1): no progress for 60 s, though it answers; ranks 0-1 wait in call 1 "
        "(barrier)");
}

TEST_CASE("a rank that has left does not count as stalled", "[watch]") {
  Court court(3);
  court.judge().done(1);
  court.judge().lost(1, court.now);
  court.silent = 1;
  court.wait({0});
  CHECK(court.pass(10s).warning ==
        "rank 2 (node n1): no progress for 10 s; rank 0 (node n0) waits in call 1 (barrier)");
}

TEST_CASE("a rank that computes, or has a known activity, is waited for", "[watch]") {
  Court court(3);
  court.wait({0, 1});
  SECTION("it computes") {
    court.computing = 2;
    CHECK(court.pass(10s).warning ==
          "rank 2 (node n1) computes; ranks 0-1 wait in call 1 (barrier)");
  }
  SECTION("it saves a checkpoint") {
    court.pulses[2].activity = {"saves a checkpoint"};
    CHECK(court.pass(10s).warning ==
          "rank 2 (node n1) saves a checkpoint; ranks 0-1 wait in call 1 (barrier)");
  }
  CHECK(text(court.pass(1000s)) == "");
}

TEST_CASE("ranks that wait for data stall if no rank makes progress", "[watch]") {
  Court court(3);
  for (int rank = 0; rank < 2; ++rank) {
    court.pulses[size_t(rank)].activity = {"waits for data"};
    court.pulses[size_t(rank)].awaits = true;
  }
  court.wait({2});
  court.computing = 0;  // data comes to it
  court.pass(1000s);
  CHECK(text(court.pass(1000s)) == "");
  court.computing = -1;
  CHECK(text(court.pass(59s)) == "");
  const auto opinion = court.pass(2s);
  CHECK(text(opinion) ==
        "ranks 0-1: waits for data; nothing has come for 60 s; rank 2 (node n1) waits in call 1");
  CHECK(opinion.verdict->fault() == Fault::Stalled);
}

TEST_CASE("all ranks stall if they wait for data that does not come", "[watch]") {
  Court court(2);
  for (Pulse& pulse : court.pulses) {
    pulse.activity = {"waits for data"};
    pulse.awaits = true;
  }
  CHECK(court.pass(10s).warning == "ranks 0-1: waits for data; nothing has come for 10 s");
  CHECK(text(court.pass(60s)) == "ranks 0-1: waits for data; nothing has come for 60 s");
}

TEST_CASE("a rank that nobody waits for may sleep", "[watch]") {
  Court court(2);
  court.silent = 1;
  CHECK(text(court.pass(1000s)) == "");
}

TEST_CASE("ranks that all wait for each other are reported with their call", "[watch]") {
  Court court(2);
  court.call(1, {"barrier"});
  court.call(0, {"barrier"});
  court.wait({0, 1});
  court.pulses[0].waits = court.pulses[1].waits = true;
  CHECK(court.pass(10s).warning ==
        "nothing has come to any rank for 10 s; ranks 0-1 wait in call 2 (barrier)");
  CHECK_THAT(text(court.pass(50s)), Catch::StartsWith("nothing has come to any rank for 60 s;"));
}

TEST_CASE("ranks whose waits end do not stall", "[watch]") {
  Court court(2);
  court.wait({0, 1});
  court.computing = 0;  // its waits end
  CHECK(text(court.pass(1000s)) == "");
}
