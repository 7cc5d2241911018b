#include "runtime/collectives/tune.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "runtime/collectives/allreduce.h"
#include "runtime/collectives/rules.h"
#include "runtime/collectives/timing.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/on_ranks.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;
using namespace std::chrono_literals;

TEST_CASE("tuning measures all usable algorithms, and all ranks get the same rules",
          "[collectives]") {
  const int ranks_per_node = GENERATE(1, 2, 4);
  ThreadGroup group(4, 10s, ranks_per_node);
  std::vector<std::string> ways;  // of rank 0
  bool fastest_first = false;     // the smallest size gets its fastest algorithm
  const auto rules = on_ranks(group, 4, [&](Communicator& comm) {
    return to_text(tune(comm, 256, 0, [&](const TuneLine& line) {
      if (comm.rank() != 0) return;
      if (line.bytes == 64) {
        const auto fastest = std::ranges::min_element(line.times, {}, &TuneLine::Time::seconds);
        fastest_first = fastest->seconds == line.times[line.fastest].seconds;
      }
      if (line.bytes != 256) return;
      for (const auto& time : line.times) ways.push_back(time.way);
    }));
  });
  CHECK(fastest_first);
  CHECK(rules == std::vector(4, rules[0]));
  CHECK(to_text(parse_rules(rules[0], "tune")) == rules[0]);
  std::vector<std::string> expected = {"recursive_doubling", "rabenseifner", "ring", "tree",
                                       "direct"};
  if (ranks_per_node == 4) expected.insert(expected.begin(), "shm");
  if (ranks_per_node == 2) {
    for (const std::string& way : std::vector(expected)) {
      expected.push_back("hierarchical+" + way);
    }
  }
  CHECK((rules[0].find("between_nodes=") != std::string::npos) == (ranks_per_node == 2));
  std::ranges::sort(ways);
  std::ranges::sort(expected);
  CHECK(ways == expected);
}

TEST_CASE("measured sums start at 64 bytes and grow fourfold", "[collectives]") {
  const auto [largest, expected] = GENERATE(table<size_t, std::vector<size_t>>(
      {{64, {64}}, {255, {64}}, {256, {64, 256}}, {5000, {64, 256, 1024, 4096}}}));
  const auto measured = on_ranks(1, [largest = largest](Communicator& comm) {
    std::vector<size_t> sizes;
    tune(comm, largest, 0, [&](const TuneLine& line) { sizes.push_back(line.bytes); });
    return sizes;
  });
  CHECK(measured[0] == expected);
}

TEST_CASE("tuning without any size to measure is an error", "[collectives]") {
  const auto errors = on_ranks(2, [](Communicator& comm) -> std::string {
    try {
      return to_text(tune(comm, 63, 0, [](const TuneLine&) {}));
    } catch (const Error& error) {
      return error.what();
    }
  });
  CHECK(errors ==
        std::vector<std::string>(2, "nothing is measured up to 63 B: the smallest sum is of 64 B"));
}

TEST_CASE("contenders take 5 to 500 turns after a first call", "[collectives]") {
  const auto [seconds, calls] = GENERATE(table<double, size_t>({{0, 5}, {1e9, 500}}));
  struct Result {
    std::string order;  // of the first calls
    size_t calls, times;
    bool fresh;
  };
  const auto results = on_ranks(2, [seconds = seconds](Communicator& comm) {
    Result result{"", 0, 0, true};
    float value = 0;
    const float mine = float(comm.rank() + 1);
    const auto sum_as = [&](char name) {
      return [&, name] {
        if (result.order.size() < 6) result.order += name;
        ++result.calls;
        result.fresh = result.fresh && value == mine;
        value = 3;
      };
    };
    std::vector<Contender> both = {{"a", std::span(&value, 1), sum_as('a')},
                                   {"b", std::span(&value, 1), sum_as('b')}};
    take_turns(comm, both, seconds);
    result.times = both[0].seconds.size() + both[1].seconds.size();
    return result;
  });
  for (const Result& result : results) {
    CHECK(result.order == "ababab");
    CHECK(result.calls == 2 * (1 + calls));
    CHECK(result.times == 2 * calls);
    CHECK(result.fresh);
  }
}

TEST_CASE("each call counts with the time of its slowest rank, on every rank", "[collectives]") {
  constexpr auto kDelay = 3ms;
  const auto times = on_ranks(3, [&](Communicator& comm) {
    float value = 0;
    int call = 0;
    std::vector<Contender> one = {{"one", std::span(&value, 1), [&] {
                                     if (call++ % 3 == comm.rank())
                                       std::this_thread::sleep_for(kDelay);
                                     value = 6;
                                   }}};
    take_turns(comm, one, 0);
    return one[0].seconds;
  });
  CHECK(times[0].size() == 5);
  for (const double seconds : times[0]) CHECK(seconds >= 0.003);
  CHECK(times[1] == times[0]);
  CHECK(times[2] == times[0]);
}

TEST_CASE("no rank begins a call before all have ended the one before", "[collectives]") {
  std::array<std::atomic<int>, 3> ended{};
  const auto early = on_ranks(3, [&](Communicator& comm) {
    float value = 0;
    int call = 0, problems = 0;
    std::vector<Contender> one = {{"one", std::span(&value, 1), [&] {
                                     for (const auto& other : ended) problems += other < call;
                                     if (comm.rank() == 1) std::this_thread::sleep_for(1ms);
                                     value = 6;
                                     ended[size_t(comm.rank())] = ++call;
                                   }}};
    take_turns(comm, one, 0);
    return problems;
  });
  CHECK(early == std::vector{0, 0, 0});
}

TEST_CASE("tuning checks every number of a sum, and leaves numbers beside it alone",
          "[collectives]") {
  const size_t count = GENERATE(size_t(1), size_t(1024), size_t(1500));
  const size_t wrong = GENERATE_COPY(size_t(0), count - 1, count);  // the last lies beside it
  const auto results = on_ranks(1, [&](Communicator& comm) {
    std::vector<float> numbers(count + 2000, 7);
    std::vector<Contender> one = {{"one", std::span(numbers).first(count), [&] {
                                     if (std::ranges::count(numbers, 1.0f) == long(count)) {
                                       numbers[wrong] = 3;
                                     }
                                   }}};
    const std::string error = test::error_of([&] { take_turns(comm, one, 0); });
    numbers[count] = 7;
    return std::pair(error, std::count(numbers.begin() + long(count), numbers.end(), 7.0f));
  });
  CHECK(results[0].first.empty() == (wrong == count));
  CHECK(results[0].second == 2000);
}

TEST_CASE("sums over many ranks are right in 16-bit types", "[collectives]") {
  const DataType type = GENERATE(from_range(kDataTypes));
  const auto calls = on_ranks(25, [type](Communicator& comm) {
    Allreduce allreduce(comm, 1500, {.type = type});
    std::vector<Contender> one = {{"one", allreduce.numbers(), [&] {
                                     allreduce.start(0, 1500);
                                     allreduce.finish();
                                   }}};
    take_turns(comm, one, 0);
    return one[0].seconds.size();
  });
  CHECK(calls == std::vector<size_t>(25, 5));
}

TEST_CASE("a quantile is the time below which that share of calls lies", "[collectives]") {
  Contender contender;
  contender.seconds = {5, 1, 4, 2, 3};
  CHECK(contender.quantile(0) == 1);
  CHECK(contender.quantile(0.25) == 2);
  CHECK(contender.median() == 3);
  CHECK(contender.quantile(0.99) == 5);
}

TEST_CASE("a wrong sum is an error", "[collectives]") {
  const DataType type = GENERATE(from_range(kDataTypes));
  const auto errors = on_ranks(2, [type](Communicator& comm) -> std::string {
    std::vector<std::byte> bytes(10 * size_of(type));
    std::vector<Contender> lazy = {{"lazy", {bytes.data(), 10, type}, [] {}}};
    return test::error_of([&] { take_turns(comm, lazy, 0.001); });
  });
  CHECK_THAT(errors[1], Catch::StartsWith("lazy returned 2.000000, but the sum is 3.000000"));
}

TEST_CASE("comments in a cluster's file of rules stay", "[collectives]") {
  const TempDir folder;
  const auto path = folder.path() / "collectives.txt";
  const RuleSet rules = parse_rules("allreduce=shm:0-max", "");
  write_file_atomic(path,
                    "# 2x4 allreduce=tree:0-max\n"
                    "\n"
                    "  2x4   allreduce=ring:0-max # indented\n"
                    "2x44 allreduce=tree:0-max\n");
  CHECK(rules_for_shape(read_file(path), "2x4", path) == parse_rules("allreduce=ring:0-max", ""));
  store_rules(path, "2x4", rules, "wednesday");
  CHECK(read_file(path) ==
        "# 2x4 allreduce=tree:0-max\n"
        "2x44 allreduce=tree:0-max\n"
        "2x4 allreduce=shm:0-max  # wednesday\n");
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
                    Catch::StartsWith("f:3: 'rng' is not an algorithm"));
}
