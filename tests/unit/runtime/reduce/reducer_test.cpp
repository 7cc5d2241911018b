#include "runtime/reduce/reducer.h"

#include <atomic>
#include <tuple>

#include "base/error.h"
#include "base/random.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/on_ranks.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;
using namespace std::chrono_literals;

namespace {

constexpr size_t kLineBytes = 64;
const std::vector<size_t> kSizes = {300, 1, 0, 17, 10};  // 19, 1, 0, 2, 1 cache lines

/// The sums that a rank consumed in one step.
struct Consumed {
  std::vector<float> sums = std::vector<float>(FlatLayout(kSizes).num_elements());
  std::vector<int> times = std::vector<int>(sums.size());  // of each element

  void take(size_t first, std::span<const float> pieces) {
    for (size_t i = 0; i < pieces.size(); ++i) {
      sums[first + i] += pieces[i];
      ++times[first + i];
    }
  }
};

/// Pushes a rank's leaf onto its stack, and adds the two topmost entries `additions` times.
void push(std::vector<std::vector<float>>& stack, std::vector<float> leaf, uint8_t additions) {
  stack.push_back(std::move(leaf));
  for (; additions > 0; --additions) {
    const std::vector<float> top = std::move(stack.back());
    stack.pop_back();
    for (size_t i = 0; i < top.size(); ++i) stack.back()[i] += top[i];
  }
}

/// The sums of all elements. Checks that each was consumed once: by one of the ranks of a node,
/// otherwise by each rank with the same bits.
std::vector<float> sums_of(const std::vector<Consumed>& ranks, bool one_node) {
  const std::vector<int> once(ranks[0].times.size(), 1);
  Consumed all;
  for (const Consumed& rank : ranks) {
    if (!one_node) {
      CHECK(rank.times == once);
      CHECK(rank.sums == ranks[0].sums);
    }
    for (size_t i = 0; i < once.size(); ++i) {
      all.times[i] += rank.times[i];
      all.sums[i] += rank.sums[i];
    }
  }
  if (!one_node) return ranks[0].sums;
  CHECK(all.times == once);
  return all.sums;
}

}  // namespace

TEST_CASE("slots start at cache lines and do not overlap", "[reduce]") {
  const FlatLayout layout(kSizes);
  CHECK(layout.num_parameters() == 5);
  CHECK(layout.num_elements() == 23 * 16);
  CHECK(layout.offset(0) == 0);
  CHECK(layout.offset(1) == 304);
  CHECK(layout.offset(2) == 320);
  CHECK(layout.offset(3) == 320);
  CHECK(layout.offset(4) == 352);
  std::vector<float> buffer(layout.num_elements());
  CHECK(layout.slot(std::span(buffer), 3).data() == buffer.data() + 320);
  CHECK(layout.slot(std::span(buffer), 3).size() == 17);
  CHECK(FlatLayout({}).num_elements() == 0);
}

TEST_CASE("buckets hold the last layers first, up to the limit", "[reduce]") {
  CHECK(make_buckets(FlatLayout(kSizes), 3 * kLineBytes) ==
        std::vector<Bucket>{{2, 5, 320, 48}, {1, 2, 304, 16}, {0, 1, 0, 304}});
  CHECK(make_buckets(FlatLayout(kSizes), 1000 * kLineBytes) ==
        std::vector<Bucket>{{0, 5, 0, 23 * 16}});
  CHECK(make_buckets(FlatLayout({}), 1000).empty());
}

TEST_CASE("a parameter larger than the limit is a bucket of its own", "[reduce]") {
  const auto buckets = make_buckets(FlatLayout(kSizes), 1);
  REQUIRE(buckets.size() == kSizes.size());
  CHECK(buckets[0] == Bucket{4, 5, 352, 16});
  CHECK(buckets[4] == Bucket{0, 1, 0, 304});
}

TEST_CASE("gradients are summed over ranks with any buckets in any order", "[reduce]") {
  const int num_ranks = GENERATE(1, 2, 3);
  const int ranks_per_node = GENERATE(1, 3);  // messages, shared memory
  const size_t bucket_bytes = GENERATE(1, 3 * kLineBytes, 1000 * kLineBytes);
  const bool backwards = GENERATE(true, false);
  ThreadGroup group(num_ranks, 10s, ranks_per_node);

  constexpr int kSteps = 3;
  const auto value = [](int step, size_t parameter, int rank) {
    return float(100 * step + 10 * int(parameter) + rank);
  };
  const auto steps_of_ranks = on_ranks(group, num_ranks, [&](Communicator& comm) {
    std::vector<Consumed> steps;
    ReducerOptions options{.mode = SumMode::Fast, .num_leaves = size_t(num_ranks)};
    options.consume = [&](size_t first, auto sums) { steps.back().take(first, sums); };
    options.bucket_bytes = bucket_bytes;
    Reducer reducer(comm, FlatLayout(kSizes), options);
    for (int step = 0; step < kSteps; ++step) {
      steps.emplace_back();
      reducer.begin();
      for (size_t i = 0; i < kSizes.size(); ++i) {
        const size_t parameter = backwards ? kSizes.size() - 1 - i : i;
        std::ranges::fill(reducer.gradient(0, parameter), value(step, parameter, comm.rank()));
        reducer.ready(0, parameter);
      }
      reducer.end();
      reducer.finish();
    }
    return steps;
  });

  const FlatLayout layout(kSizes);
  for (int step = 0; step < kSteps; ++step) {
    std::vector<Consumed> ranks;
    for (const auto& steps : steps_of_ranks) ranks.push_back(steps[size_t(step)]);
    std::vector<float> sums = sums_of(ranks, ranks_per_node >= num_ranks);
    std::vector<float> expected(sums.size());
    for (size_t parameter = 0; parameter < kSizes.size(); ++parameter) {
      float sum = 0;
      for (int rank = 0; rank < num_ranks; ++rank) sum += value(step, parameter, rank);
      std::ranges::fill(layout.slot(std::span(expected), parameter), sum);
    }
    CHECK(sums == expected);
  }
}

TEST_CASE("a parameter larger than a piece is consumed whole, and once", "[reduce]") {
  const std::vector<size_t> sizes = {10, 200000};
  ThreadGroup group(2, 10s, 1);
  const auto ranks = on_ranks(group, 2, [&](Communicator& comm) {
    Consumed consumed{std::vector<float>(FlatLayout(sizes).num_elements()),
                      std::vector<int>(FlatLayout(sizes).num_elements())};
    ReducerOptions options{.mode = SumMode::Fast, .num_leaves = 2};
    options.consume = [&](size_t first, auto sums) { consumed.take(first, sums); };
    Reducer reducer(comm, FlatLayout(sizes), options);
    reducer.begin();
    for (const size_t parameter : {1, 0}) {
      std::span<float> gradient = reducer.gradient(0, parameter);
      for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = float(i % 1000 + comm.rank());
      reducer.ready(0, parameter);
    }
    reducer.end();
    reducer.wait(1);
    const int times_of_last = consumed.times.back();
    reducer.finish();
    return std::pair(consumed, times_of_last);
  });
  for (const auto& [consumed, times_of_last] : ranks) {
    CHECK(times_of_last == 1);
    CHECK(consumed.times == std::vector(consumed.times.size(), 1));
    CHECK(consumed.sums == ranks[0].first.sums);
  }
  const std::vector<float>& sums = ranks[0].first.sums;
  const FlatLayout layout(sizes);
  const std::span<const float> large = layout.slot(std::span(sums), 1);
  for (size_t i = 0; i < large.size(); ++i) {
    if (large[i] != float(2 * (i % 1000) + 1)) FAIL("element " << i << " is " << large[i]);
  }
}

TEST_CASE("a bucket is sent after its last leaf, and not while it is held back", "[reduce]") {
  const bool holds = GENERATE(false, true);
  ThreadGroup group(1, 10s);
  Consumed consumed;
  ReducerOptions options{.mode = SumMode::Exact, .num_leaves = 2, .bucket_bytes = 1};
  options.consume = [&](size_t first, auto sums) { consumed.take(first, sums); };
  Reducer reducer(group.communicator(0), FlatLayout(kSizes), options);
  const auto times_of_last = [&] {
    reducer.poll();
    return consumed.times.back();
  };
  reducer.begin();
  if (holds) reducer.hold();
  reducer.ready(0, 4);
  CHECK(times_of_last() == 0);
  reducer.ready(1, 4);
  CHECK(times_of_last() == (holds ? 0 : 1));
  if (holds) reducer.release();
  CHECK(times_of_last() == 1);
  reducer.end();
  reducer.finish();
  CHECK(consumed.times == std::vector(consumed.times.size(), 1));
}

TEST_CASE("a timeline has each bucket once, and the wait for a rank that comes late", "[reduce]") {
  ThreadGroup group(2, 10s, 1);
  std::atomic<bool> rank0_waits = false;
  const std::vector<std::string> names = GENERATE(values<std::vector<std::string>>(
      {{}, {"conv1.weight", "conv1.bias", "none", "fc.weight", "fc.bias"}}));
  const auto ranks = on_ranks(group, 2, [&](Communicator& comm) {
    Timeline timeline;
    timeline.start();
    ReducerOptions options{.mode = SumMode::Fast, .num_leaves = 2};
    options.consume = [](size_t, auto) {};
    options.bucket_bytes = 20 * kLineBytes;
    options.names = names;
    options.timeline = &timeline;
    Reducer reducer(comm, FlatLayout(kSizes), options);
    reducer.begin();
    if (comm.rank() == 1) rank0_waits.wait(false);
    for (size_t parameter = kSizes.size(); parameter-- > 0;) reducer.ready(0, parameter);
    if (comm.rank() == 0) {
      rank0_waits = true;
      rank0_waits.notify_all();
    }
    reducer.end();
    reducer.finish();
    reducer.poll();
    std::vector<std::string> buckets;
    for (const Timeline::Span& span : timeline.spans()) {
      if (span.row == Timeline::Row::Communication) buckets.push_back(span.name);
    }
    std::ranges::sort(buckets);
    const double waited_s = reducer.take_wait_s();
    return std::tuple(buckets, waited_s, reducer.take_wait_s());
  });
  const std::vector<std::string> expected =
      names.empty()
          ? std::vector<std::string>{"gradients 1", "gradients 2 to 5"}
          : std::vector<std::string>{"gradients conv1.bias to fc.bias", "gradients conv1.weight"};
  for (const auto& [buckets, waited_s, again_s] : ranks) {
    CHECK(buckets == expected);
    CHECK(again_s == 0);
  }
  CHECK(std::get<1>(ranks[0]) > 0);
}

TEST_CASE("leaves of a rank are kept apart up to 64 MiB", "[reduce]") {
  const auto additions_of = [](int num_ranks, size_t elements) {
    return on_ranks(num_ranks, [&](Communicator& comm) {
      ReducerOptions options{.mode = SumMode::Exact, .num_leaves = 2 * size_t(num_ranks)};
      options.consume = [](size_t, auto) {};
      return Reducer(comm, FlatLayout(std::vector{elements}), options).additions();
    })[0];
  };
  constexpr size_t kMost = (size_t{64} << 20) / 2 / sizeof(float);
  CHECK(additions_of(2, kMost) == std::vector<uint8_t>{0, 0});
  CHECK(additions_of(1, kMost + 1) == std::vector<uint8_t>{0, 1});
}

TEST_CASE("gradients of leaves have the same sum, bit for bit, on any number of ranks",
          "[reduce]") {
  constexpr size_t kLeaves = 8;
  const auto sums_on = [&](int num_ranks, int ranks_per_node, bool caller_adds = false) {
    ThreadGroup group(num_ranks, 10s, ranks_per_node);
    const auto ranks = on_ranks(group, num_ranks, [&](Communicator& comm) {
      Consumed last;
      ReducerOptions options{
          .mode = SumMode::Exact, .num_leaves = kLeaves, .caller_adds_leaves = caller_adds};
      options.consume = [&](size_t first, auto sums) { last.take(first, sums); };
      options.bucket_bytes = 3 * kLineBytes;
      Reducer reducer(comm, FlatLayout(kSizes), options);
      for (int step = 0; step < 3; ++step) {
        last = {};
        reducer.begin();
        std::vector<std::vector<float>> stack;  // for the parameter that the caller adds up
        for (size_t leaf = 0; leaf < reducer.num_leaves(); ++leaf) {
          RandomStream random(uint64_t(step), RandomUse::Initialization,
                              uint32_t(reducer.first_leaf() + leaf));
          for (size_t parameter = kSizes.size(); parameter-- > 0;) {
            std::vector<float> gradient(kSizes[parameter]);
            for (float& value : gradient) value = random.uniform() - 0.5f;
            if (caller_adds && parameter == 0) {
              push(stack, std::move(gradient), reducer.additions()[leaf]);
              continue;
            }
            std::ranges::copy(gradient, reducer.gradient(leaf, parameter).begin());
            reducer.ready(leaf, parameter);
          }
        }
        if (caller_adds && reducer.num_leaves() > 0) {
          const std::vector<float*> parts = reducer.parts(0);
          DLFLOW_CHECK(parts.size() == stack.size());
          for (size_t i = 0; i < parts.size(); ++i) std::ranges::copy(stack[i], parts[i]);
          reducer.ready(0);
        }
        reducer.end();
        reducer.finish();
      }
      return last;
    });
    return sums_of(ranks, ranks_per_node == 0 || ranks_per_node >= num_ranks);
  };
  const std::vector<float> alone = sums_on(1, 0);
  CHECK(alone[5] != 0);
  const int num_ranks = GENERATE(2, 3, 4, 7, 8, 9);  // with 9 ranks, one has nothing to do
  CHECK(sums_on(num_ranks, 0) == alone);
  CHECK(sums_on(num_ranks, 2) == alone);
  CHECK(sums_on(num_ranks, 0, true) == alone);
  CHECK(sums_on(num_ranks, 2, true) == alone);
}

TEST_CASE("ranks with different parameters are named on every rank", "[reduce]") {
  const auto errors = on_ranks(4, [](Communicator& comm) -> std::string {
    const bool differs = comm.rank() == 1 || comm.rank() == 3;
    return test::error_of([&] {
      Reducer(comm, FlatLayout(differs ? std::vector<size_t>{10, 20} : std::vector<size_t>{20, 10}),
              {.mode = SumMode::Fast, .num_leaves = 4});
    });
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, Catch::StartsWith("the parameters of rank 1, 3 are not those of rank 0"));
  }
}
