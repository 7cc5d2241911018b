#include "runtime/nn/arena.h"

#include "tests/support/catch.h"

using namespace dlflow::runtime;
using dnnl::memory;

namespace {

memory::desc floats(int64_t count) {
  return {{count}, memory::data_type::f32, memory::format_tag::a};
}

char* address(const memory& m) { return static_cast<char*>(m.get_data_handle()); }

}  // namespace

TEST_CASE("values with disjoint lifetimes share memory", "[arena]") {
  Arena arena{dnnl::engine(dnnl::engine::kind::cpu, 0)};
  const memory a = arena.add(floats(1000), 0);
  arena.keep(a, 1);
  const memory b = arena.add(floats(1000), 1);
  const memory c = arena.add(floats(1000), 2);
  arena.allocate(StepOrder(8, {}));
  CHECK(address(a) != address(b));
  CHECK(address(c) == address(a));
  CHECK(arena.bytes() == 2 * 4032);  // whole cache lines
}

TEST_CASE("a value uses a gap of exactly its size", "[arena]") {
  Arena arena{dnnl::engine(dnnl::engine::kind::cpu, 0)};
  arena.add(floats(3 * 1008), 0);
  const memory above = arena.add(floats(2 * 1008), 0);
  arena.keep(above, 1);
  arena.add(floats(2 * 1008), 1);
  arena.add(floats(1008), 1);  // fits between the two others with the same lifetime
  CHECK(arena.measure(StepOrder(8, {})) == 5 * 4032);
}

TEST_CASE("a view has the address of its original", "[arena]") {
  Arena arena{dnnl::engine(dnnl::engine::kind::cpu, 0)};
  const memory first = arena.add(floats(3), 0);
  const memory a = arena.add(floats(12), 0);
  const memory view = arena.view(a, {{3, 4}, memory::data_type::f32, memory::format_tag::ab});
  arena.keep(view, 7);
  const memory later = arena.add(floats(12), 7);
  arena.allocate(StepOrder(8, {}));
  CHECK(address(a) == address(view));
  CHECK(address(later) != address(view));
  CHECK(address(first) != nullptr);
}

namespace {

/// Six operations in a chain. Each reads the result of the previous one, in the forward pass and in
/// its backward pass.
struct Chain {
  Arena arena{dnnl::engine(dnnl::engine::kind::cpu, 0)};
  std::vector<memory> results;
  static constexpr int kLength = 6;

  Chain() {
    for (int i = 0; i < kLength; ++i) {
      results.push_back(arena.add(floats(1008), i));
      if (i > 0) arena.keep(results[size_t(i - 1)], i);
      if (i > 0) arena.keep(results[size_t(i - 1)], 2 * kLength - i);
    }
    arena.keep(results.back(), kLength);
  }
};

}  // namespace

TEST_CASE("results that only one segment reads are freed until its backward pass", "[arena]") {
  constexpr size_t kBytes = 4032;
  Chain chain;
  CHECK(chain.arena.measure(StepOrder(6, {})) == 6 * kBytes);
  // Result 2, the last of the segment, has a reader outside and stays. Results 0 and 1 are freed
  // before 3 to 5 are needed.
  CHECK(chain.arena.measure(StepOrder(6, {{0, 3}})) == 4 * kBytes);
  chain.arena.allocate(StepOrder(6, {{0, 3}}));
  CHECK(chain.arena.gives_up(0));
  CHECK(chain.arena.gives_up(1));
  for (int i = 2; i < 6; ++i) CHECK_FALSE(chain.arena.gives_up(i));
  for (const int kept : {3, 4, 5})
    CHECK(address(chain.results[2]) != address(chain.results[size_t(kept)]));
  CHECK(address(chain.results[0]) != address(chain.results[1]));
}

TEST_CASE("a step runs each segment again before its backward pass", "[arena]") {
  const StepOrder schedule(5, {{0, 2}, {2, 4}});
  CHECK(schedule.backward(4) == 6);
  CHECK(schedule.again(2) == 7);
  CHECK(schedule.again(3) == 8);
  CHECK(schedule.backward(3) == 9);
  CHECK(schedule.backward(2) == 10);
  CHECK(schedule.again(0) == 11);
  CHECK(schedule.backward(0) == 14);
  CHECK(schedule.end() == 15);
  CHECK_FALSE(schedule.is_recomputed(4));
}
