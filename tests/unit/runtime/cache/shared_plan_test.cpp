#include "runtime/cache/shared_plan.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/aligned_floats.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

/// A step of at most 4 chunks, which differs from every other.
PlannedStep step_of(uint32_t number) {
  PlannedStep step;
  step.chunks.step = 1000 + number;
  for (uint32_t i = 0; i < number % 4; ++i) {
    ChunkLoad& load = step.chunks.loads.emplace_back();
    load.number = number + i;
    load.chunk = number + 10 * i;
    load.slot = i;
    load.free_after = number;
    load.after[1] = {i, number};
    if (i == 1) load.promote_from = number;
    if (i == 2) load.demote_to = number + 1;
    step.chunks.places.push_back({load.chunk, load.slot, load.number});
  }
  if (number % 3 == 0) step.of_part.push_back(number + 100);
  return step;
}

bool same(const PlannedStep& a, const PlannedStep& b) {
  const auto same_load = [](const ChunkLoad& x, const ChunkLoad& y) {
    return x.number == y.number && x.chunk == y.chunk && x.slot == y.slot &&
           x.free_after == y.free_after && x.promote_from == y.promote_from &&
           x.demote_to == y.demote_to && x.after[1].slot == y.after[1].slot &&
           x.after[1].number == y.after[1].number && y.after[0].number == 0;
  };
  const auto same_place = [](const ChunkPlace& x, const ChunkPlace& y) {
    return x.chunk == y.chunk && x.slot == y.slot && x.number == y.number;
  };
  return a.chunks.step == b.chunks.step && a.of_part == b.of_part &&
         std::ranges::equal(a.chunks.loads, b.chunks.loads, same_load) &&
         std::ranges::equal(a.chunks.places, b.chunks.places, same_place);
}

/// Memory that processes share.
std::byte* shared_memory(size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  return static_cast<std::byte*>(memory);
}

constexpr SharedPlan::Dimensions kTwoRanks = {4, 2};

}  // namespace

TEST_CASE("each rank hears every planned step once, in order", "[cache]") {
  const AlignedFloats memory =
      make_aligned_floats(SharedPlan::bytes_for(kTwoRanks) / sizeof(float) + 1);
  SharedPlan plan(reinterpret_cast<std::byte*>(memory.get()), kTwoRanks);
  CHECK_FALSE(plan.hear(0));
  for (uint32_t i = 0; i < 100; ++i) {
    REQUIRE(plan.tell(step_of(i)));
    for (const int rank : {0, 1}) {
      const auto heard = plan.hear(rank);
      REQUIRE(heard);
      CHECK(same(*heard, step_of(i)));
      CHECK_FALSE(plan.hear(rank));
    }
  }
}

TEST_CASE("a planned step waits for the rank that has heard least", "[cache]") {
  const AlignedFloats memory =
      make_aligned_floats(SharedPlan::bytes_for(kTwoRanks) / sizeof(float) + 1);
  SharedPlan plan(reinterpret_cast<std::byte*>(memory.get()), kTwoRanks);
  uint32_t told = 0;
  while (told < 100 && plan.tell(step_of(told))) ++told;
  CHECK(told == 16);
  for (uint32_t i = 0; i < told; ++i) REQUIRE(plan.hear(0));
  CHECK_FALSE(plan.tell(step_of(told)));
  CHECK(same(*plan.hear(1), step_of(0)));
  CHECK(plan.tell(step_of(told)));
  CHECK_FALSE(plan.tell(step_of(told + 1)));
  CHECK(same(*plan.hear(0), step_of(told)));
}

TEST_CASE("a plan goes to a rank of another process", "[cache]") {
  std::byte* const memory = shared_memory(SharedPlan::bytes_for(kTwoRanks));
  constexpr uint32_t kSteps = 500;
  const auto hears_all = [&](int rank) {
    SharedPlan plan(memory, kTwoRanks);
    for (uint32_t i = 0; i < kSteps;) {
      const auto heard = plan.hear(rank);
      if (!heard) {
        std::this_thread::yield();
      } else if (!same(*heard, step_of(i++))) {
        return false;
      }
    }
    return true;
  };
  const pid_t child = ::fork();
  if (child == 0) ::_exit(hears_all(1) ? 0 : 1);
  std::jthread teller([&] {
    SharedPlan plan(memory, kTwoRanks);
    for (uint32_t i = 0; i < kSteps;) {
      if (plan.tell(step_of(i))) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  });
  CHECK(hears_all(0));
  int status = 1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  ::munmap(memory, SharedPlan::bytes_for(kTwoRanks));
}
