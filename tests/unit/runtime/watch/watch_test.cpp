#include "runtime/watch/watch.h"

#include <array>
#include <mutex>
#include <thread>

#include "runtime/collectives/allreduce.h"
#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"
#include "tests/support/other_rank.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;
using namespace std::chrono_literals;

namespace {

/// The error of under_watch() on every rank, and the lines printed.
struct Told {
  std::vector<std::string> errors;
  std::vector<std::string> lines;
};

template <typename Work>
Told watched(int num_ranks, Work work, WatchOptions options = {}) {
  Told told;
  std::mutex mutex;
  options.tell = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    told.lines.push_back(line);
  };
  ThreadGroup group(num_ranks, 20s);
  told.errors = on_ranks(group, num_ranks, [&](Communicator& comm) -> std::string {
    try {
      under_watch(comm, options, [&] { work(comm); });
    } catch (const WatchError& error) {
      return error.what();
    }
    return "";
  });
  return told;
}

/// Goes on until a call throws. Real calls also take some time.
void go_on(Communicator& comm) {
  for (;; std::this_thread::sleep_for(1ms)) comm.barrier();
}

/// A rank that is the first on its node, which is not rank 0's.
class FirstOfNode final : public OtherRank {
 public:
  using OtherRank::OtherRank;

  int node_rank() const override { return 0; }
};

/// A rank with a wrong token, which rank 0 rejects.
class Stranger final : public OtherRank {
 public:
  using OtherRank::OtherRank;

  Transfer start_receive(std::span<std::byte> bytes, int from, int channel) override {
    received_ = bytes;
    return OtherRank::start_receive(bytes, from, channel);
  }
  bool done(Transfer& transfer) override {
    const bool done = OtherRank::done(transfer);
    if (done && received_.size() > 8) std::exchange(received_, {}).front() ^= std::byte{1};
    return done;
  }

 private:
  std::span<std::byte> received_;
};

}  // namespace

TEST_CASE("ranks that agree do their work and leave", "[watch]") {
  const int num_ranks = GENERATE(1, 2, 3, 7);
  std::atomic<int> worked{0};
  const Told told = watched(num_ranks, [&](Communicator& comm) {
    for (int i = 0; i < 100; ++i) comm.barrier();
    ++worked;
  });
  CHECK(told.errors == std::vector<std::string>(num_ranks));
  CHECK(told.lines.empty());
  CHECK(worked == num_ranks);
}

TEST_CASE("ranks connected to rank 0 through another one are watched", "[watch]") {
  constexpr int kRanks = 36, kBehind = 35;  // rank 1 is its parent
  const Told agreed = watched(kRanks, [](Communicator& comm) { comm.barrier(); });
  CHECK(agreed.errors == std::vector<std::string>(kRanks));
  CHECK(agreed.lines.empty());

  const Told thrown = watched(kRanks, [](Communicator& comm) {
    if (comm.rank() == kBehind) throw Error(Errc::NotFound, "no such file");
    comm.barrier();
  });
  const Told differs = watched(kRanks, [](Communicator& comm) {
    comm.submit({"all-reduce", comm.rank() == kBehind ? "b" : "a", 10, "fp32"});
    go_on(comm);
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    CHECK_THAT(thrown.errors[size_t(rank)],
               Catch::StartsWith("rank 35 (node ") && Catch::EndsWith("): no such file"));
    CHECK_THAT(differs.errors[size_t(rank)],
               Catch::StartsWith("call 1 is not the same on all ranks: rank 35 (node "));
  }
  CHECK(thrown.lines.size() == 1);
}

TEST_CASE("a rank that has left is no longer watched", "[watch]") {
  const auto watched_after = on_ranks(2, [](Communicator& comm) {
    bool watched = false;
    under_watch(comm, {}, [&] { watched = comm.lifeline() != nullptr; });
    return std::pair(watched, comm.lifeline() != nullptr);
  });
  CHECK(watched_after == std::vector(2, std::pair(true, false)));
}

TEST_CASE("ranks that could connect are watched even if rank 0's watch is slow", "[watch]") {
  std::atomic<int> watched_over{0};
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    watched(2, [&](Communicator& comm) {
      if (comm.rank() == 0 && comm.lifeline()) ++watched_over;
    });
  }
  CHECK(watched_over == kTries);
}

TEST_CASE("if one rank cannot connect, all work without a watch, and none counts as dead",
          "[watch]") {
  std::vector<std::string> lines;
  WatchOptions options;
  options.tell = [&](const std::string& line) {
    lines.push_back(line);
    std::this_thread::sleep_for(300ms);  // the others have long left
  };
  const auto watched_over = on_ranks(3, [&](Communicator& comm) {
    bool watched = false;
    Stranger stranger(comm);
    Communicator& own = comm.rank() == 2 ? stranger : comm;
    under_watch(own, options, [&] { watched = own.lifeline() != nullptr; });
    return watched;
  });
  CHECK(watched_over == std::vector(3, false));
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].starts_with(
      "warning: 1 rank cannot connect by TCP to the ranks that watch over them"));
}

TEST_CASE("any difference in a call is reported on every rank, with both versions", "[watch]") {
  struct Difference {
    Call call;
    std::string text;
  };
  const std::array<Difference, 6> differences = {
      Difference{{"all-reduce", "v", 10, "fp32"}, "all-reduce 'v' of 10 fp32"},
      Difference{{"all-reduce", "w", 11, "fp32"}, "all-reduce 'w' of 11 fp32"},
      Difference{{"all-reduce", "w", 10, "fp16"}, "all-reduce 'w' of 10 fp16"},
      Difference{{"all-reduce (max)", "w", 10, "fp32"}, "all-reduce (max) 'w' of 10 fp32"},
      Difference{{"all-reduce", "w", 10, "fp32", 1}, "all-reduce 'w' of 10 fp32 from rank 1"},
      Difference{{"barrier"}, "barrier"}};
  const Difference& difference = differences[size_t(GENERATE(range(0, 6)))];
  const int odd = GENERATE(0, 2);
  const Told told = watched(3, [&](Communicator& comm) {
    comm.barrier();
    comm.submit(comm.rank() == odd ? difference.call : Call{"all-reduce", "w", 10, "fp32"});
    go_on(comm);
  });
  for (const std::string& error : told.errors) {
    CHECK(error == told.errors[0]);
    CHECK_THAT(error, Catch::StartsWith("call 2 is not the same on all ranks: rank " +
                                        std::to_string(odd) + " (node "));
    CHECK_THAT(error, Catch::Contains(") " + difference.text + "; ranks "));
    CHECK_THAT(error, Catch::Contains(" all-reduce 'w' of 10 fp32; start all"));
  }
  CHECK(told.lines == std::vector<std::string>{"error: " + told.errors[0]});
}

TEST_CASE("calls in a different order are reported", "[watch]") {
  const Told told = watched(2, [&](Communicator& comm) {
    comm.submit({"all-reduce", comm.rank() == 0 ? "a" : "b", 10, "fp32"});
    comm.submit({"all-reduce", comm.rank() == 0 ? "b" : "a", 10, "fp32"});
    go_on(comm);
  });
  CHECK_THAT(told.errors[0], Catch::Contains("all-reduce 'a' of 10 fp32; rank 1"));
  CHECK_THAT(told.errors[1], Catch::Contains("all-reduce 'b' of 10 fp32; start"));
}

TEST_CASE("a rank that ends while others go on is reported", "[watch]") {
  const Told told = watched(3, [&](Communicator& comm) {
    if (comm.rank() != 1) go_on(comm);
  });
  for (const std::string& error : told.errors) {
    CHECK_THAT(error,
               Catch::Contains(": rank 1 (node ") && Catch::Contains(") end; ranks 0, 2 barrier"));
  }
}

TEST_CASE("a broadcast with two roots is reported", "[watch]") {
  const Told told = watched(2, [&](Communicator& comm) {
    int value = 0;
    comm.broadcast(std::as_writable_bytes(std::span(&value, 1)), comm.rank());
    go_on(comm);
  });
  CHECK_THAT(told.errors[0], Catch::Contains("broadcast of 4 bytes from rank 0; rank 1"));
  CHECK(told.errors[1] == told.errors[0]);
}

TEST_CASE("an error on one rank ends all, and names the rank", "[watch]") {
  const int failing = GENERATE(0, 1);
  const Told told = watched(3, [&](Communicator& comm) {
    if (comm.rank() == failing) throw Error(Errc::NotFound, "no such file");
    comm.barrier();
  });
  for (const std::string& error : told.errors) {
    CHECK_THAT(error, Catch::StartsWith("rank " + std::to_string(failing) + " (node ") &&
                          Catch::EndsWith("): no such file"));
  }
  CHECK(told.lines.size() == 1);
}

TEST_CASE("a wait for flags in shared memory ends", "[watch]") {
  const Told told = watched(2, [&](Communicator& comm) {
    Allreduce allreduce(comm, 100);
    if (comm.rank() == 1) throw Error(Errc::NotFound, "no such file");
    allreduce.start(0, 100);
    allreduce.finish();
  });
  CHECK_THAT(told.errors[0], Catch::EndsWith("no such file"));
}

TEST_CASE("a rank that does nothing while others wait ends all", "[watch]") {
  WatchOptions options;
  options.limits = {300ms, 900ms};
  std::atomic<bool> over = false;
  const Told told = watched(
      3,
      [&](Communicator& comm) {
        while (comm.rank() == 2 && !over) std::this_thread::sleep_for(10ms);
        try {
          comm.barrier();
        } catch (...) {
          over = true;
          throw;
        }
      },
      options);
  for (const std::string& error : told.errors) {
    CHECK_THAT(error, Catch::StartsWith("rank 2 (node ") &&
                          Catch::Contains(": no progress for 0.9 s, though it answers; ranks 0-1 "
                                          "wait in call 1 (barrier)"));
  }
  CAPTURE(told.lines);
  REQUIRE(told.lines.size() == 2);
  CHECK_THAT(told.lines[0], Catch::StartsWith("warning: rank 2"));
}

TEST_CASE("a rank that does nothing while others are done ends all", "[watch]") {
  WatchOptions options;
  options.limits = {300ms, 900ms};
  std::atomic<bool> over = false;
  options.known = [&](const WatchError&) { over = true; };
  const Told told = watched(
      2,
      [&](Communicator& comm) {
        while (comm.rank() == 1 && !over) std::this_thread::sleep_for(10ms);
      },
      options);
  for (const std::string& error : told.errors)
    CHECK_THAT(error, Catch::StartsWith("rank 1 (node "));
}

TEST_CASE("one rank per node prints that rank 0 is silent", "[watch]") {
  constexpr int kOthers = 3;
  std::atomic<int> ended = 0;
  const auto until_others_ended = [&] {
    while (ended < kOthers) std::this_thread::sleep_for(10ms);
  };
  const auto errors_told = on_ranks(1 + kOthers, [&](Communicator& comm) {
    int errors = 0;
    WatchOptions options;
    options.limits = {100ms, 400ms};
    options.tell = [&](const std::string& line) {
      if (comm.rank() == 0) return until_others_ended();  // blocks its watch's thread
      errors += line.starts_with("error: rank 0 ");
    };
    FirstOfNode first(comm);
    Communicator& own = comm.rank() == 3 ? first : comm;
    try {
      under_watch(own, options, [&] {
        if (comm.rank() == 0) until_others_ended();
        own.barrier();
      });
    } catch (const Error&) {
      if (comm.rank() > 0) ++ended;
    }
    return errors;
  });
  CHECK(errors_told == std::vector{0, 1, 0, 1});
}

TEST_CASE("a known activity may exceed the limit", "[watch]") {
  WatchOptions options;
  options.limits = {300ms, 600ms};
  const Told told = watched(
      2,
      [&](Communicator& comm) {
        if (comm.rank() == 0) {
          const Activity activity(comm, "saves a checkpoint");
          std::this_thread::sleep_for(1500ms);
        }
        comm.barrier();
      },
      options);
  CHECK(told.errors == std::vector<std::string>(2));
  REQUIRE_FALSE(told.lines.empty());
  CHECK_THAT(told.lines[0], Catch::Contains(") saves a checkpoint; rank 1 (node "));
}

TEST_CASE("a rank that goes on computing has time to end", "[watch]") {
  WatchOptions options;
  options.time_to_end = 1h;
  std::atomic<int> ended = 0;
  options.last_resort = [&](const WatchError&) { ++ended; };
  watched(
      2,
      [&](Communicator& comm) {
        if (comm.rank() == 1) throw Error(Errc::NotFound, "no such file");
        while (!comm.lifeline()->raised()) std::this_thread::sleep_for(1ms);
        std::this_thread::sleep_for(300ms);  // turns of its watch
        comm.barrier();
      },
      options);
  CHECK(ended == 0);
}

TEST_CASE("a rank that is done leaves without the others after its time to linger", "[watch]") {
  std::atomic<bool> has_left = false;
  WatchOptions options;
  options.linger = [] { return 50ms; };
  const auto errors = on_ranks(2, [&](Communicator& comm) -> std::string {
    try {
      under_watch(comm, options, [&] {
        while (comm.rank() == 0 && !has_left) std::this_thread::sleep_for(1ms);
      });
    } catch (const WatchError& error) {
      return error.what();
    }
    has_left = true;
    return "";
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("the reason for the end is printed before any rank acts on it", "[watch]") {
  std::atomic<bool> told = false;
  std::atomic<int> known = 0, known_after = 0;
  WatchOptions options;
  options.tell = [&](const std::string& line) { told = line.ends_with("no such file"); };
  options.known = [&](const WatchError& error) {
    ++known;
    known_after += told && error.code() == Errc::NotFound;
  };
  const auto codes = on_ranks(3, [&](Communicator& comm) {
    try {
      under_watch(comm, options, [&] {
        if (comm.rank() == 2) throw Error(Errc::NotFound, "no such file");
        comm.barrier();
      });
    } catch (const WatchError& error) {
      return std::pair(error.code(), error.fault());
    }
    return std::pair(Errc::Corrupt, Fault::Lost);
  });
  CHECK(known == 3);
  CHECK(known_after == 3);
  CHECK(codes == std::vector(3, std::pair(Errc::NotFound, Fault::Failed)));
}

TEST_CASE("ranks that know why they end do not leave at once", "[watch]") {
  const auto stayed = on_ranks(2, [](Communicator& comm) {
    std::chrono::steady_clock::time_point knew;
    WatchOptions options;
    options.known = [&](const WatchError&) { knew = std::chrono::steady_clock::now(); };
    try {
      under_watch(comm, options, [&] {
        if (comm.rank() == 1) throw Error(Errc::NotFound, "no such file");
        comm.barrier();
      });
    } catch (const WatchError&) {
      return std::chrono::steady_clock::now() - knew;
    }
    return std::chrono::steady_clock::duration();
  });
  for (const auto time : stayed) CHECK(time >= 500ms);
}

TEST_CASE("a rank without waits is ended by its watch, and only once", "[watch]") {
  std::array<std::atomic<int>, 2> ended{};
  const auto errors = on_ranks(2, [&](Communicator& comm) -> std::string {
    WatchOptions options;
    options.time_to_end = 100ms;
    options.last_resort = [&](const WatchError&) { ++ended[size_t(comm.rank())]; };
    try {
      under_watch(comm, options, [&] {
        if (comm.rank() == 1) throw Error(Errc::NotFound, "no such file");
        while (ended[0] + ended[1] == 0) std::this_thread::sleep_for(10ms);
        std::this_thread::sleep_for(300ms);  // turns of its watch
        comm.barrier();
      });
    } catch (const WatchError& error) {
      return error.what();
    }
    return "";
  });
  CHECK(ended[0] == 1);
  CHECK(ended[1] == 0);  // this rank has the reason for the end
  CHECK_THAT(errors[0], Catch::EndsWith("no such file"));
}
