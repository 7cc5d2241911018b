#include "runtime/reduce/reducer.h"

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;
using namespace std::chrono_literals;

namespace {

constexpr size_t kLineBytes = 64;
const std::vector<size_t> kSizes = {300, 1, 0, 17, 10};  // 19, 1, 0, 2, 1 cache lines

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

TEST_CASE("gradients are summed over ranks, whatever the buckets and the order", "[reduce]") {
  const int num_ranks = GENERATE(1, 2, 3);
  const int ranks_per_node = GENERATE(1, 3);  // the ring, shared memory
  const size_t bucket_bytes = GENERATE(1, 3 * kLineBytes, 1000 * kLineBytes);
  const bool backwards = GENERATE(true, false);
  ThreadGroup group(num_ranks, 10s, ranks_per_node);

  const auto wrong = on_ranks(group, num_ranks, [&](Communicator& comm) {
    Reducer reducer(comm, FlatLayout(kSizes), bucket_bytes);
    int wrong_values = 0;
    for (int step = 0; step < 3; ++step) {
      for (size_t i = 0; i < kSizes.size(); ++i) {
        const size_t parameter = backwards ? kSizes.size() - 1 - i : i;
        for (float& value : reducer.gradient(parameter)) {
          value = float(100 * step + 10 * int(parameter) + comm.rank());
        }
        reducer.ready(parameter);
      }
      reducer.finish();
      const int ranks_sum = num_ranks * (num_ranks - 1) / 2;
      for (size_t parameter = 0; parameter < kSizes.size(); ++parameter) {
        for (const float value : reducer.gradient(parameter)) {
          const int expected = num_ranks * (100 * step + 10 * int(parameter)) + ranks_sum;
          wrong_values += value != float(expected);
        }
      }
    }
    return wrong_values;
  });
  CHECK(wrong == std::vector(num_ranks, 0));
}

TEST_CASE("a rank without samples takes part with zeros and announces nothing", "[reduce]") {
  const auto sums = on_ranks(2, [](Communicator& comm) {
    Reducer reducer(comm, FlatLayout(kSizes), kLineBytes);
    if (comm.rank() == 0) {
      for (size_t parameter = kSizes.size(); parameter-- > 0;) {
        for (float& value : reducer.gradient(parameter)) value = 5;
        reducer.ready(parameter);
      }
    }
    reducer.finish();
    return reducer.gradient(3).back();
  });
  CHECK(sums == std::vector{5.0f, 5.0f});
}

TEST_CASE("ranks with other parameters are named on every rank", "[reduce]") {
  const auto errors = on_ranks(4, [](Communicator& comm) -> std::string {
    const bool differs = comm.rank() == 1 || comm.rank() == 3;
    try {
      Reducer(comm,
              FlatLayout(differs ? std::vector<size_t>{10, 20} : std::vector<size_t>{20, 10}));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, Catch::StartsWith("the parameters of rank 1, 3 are not those of rank 0"));
  }
}
