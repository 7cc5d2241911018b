#include "runtime/cache/chunk_plan.h"

#include <algorithm>
#include <list>
#include <map>
#include <random>
#include <set>

#include "base/error.h"
#include "runtime/data/shard.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

using Steps = std::vector<std::vector<uint32_t>>;

Steps one_each(const std::vector<uint32_t>& chunks) {
  Steps steps;
  for (const uint32_t chunk : chunks) steps.push_back({chunk});
  return steps;
}

/// Epochs of `per_step` chunks a step, each in an order of its own.
Steps epochs_of(size_t num_chunks, size_t per_step, size_t num_epochs) {
  Steps steps;
  for (size_t epoch = 0; epoch < num_epochs; ++epoch) {
    const auto order = epoch_permutation(num_chunks, 3, epoch);
    for (size_t i = 0; i < num_chunks; i += per_step) {
      const size_t end = std::min(i + per_step, num_chunks);
      steps.emplace_back(order.begin() + std::ptrdiff_t(i), order.begin() + std::ptrdiff_t(end));
    }
  }
  return steps;
}

/// Steps of 1 to 4 chunks, some of them much in demand.
Steps random_steps(size_t num_chunks, size_t num_steps, uint32_t seed) {
  std::mt19937 random(seed);
  Steps steps;
  for (size_t i = 0; i < num_steps; ++i) {
    std::set<uint32_t> chunks;
    const size_t count = 1 + random() % 4;
    while (chunks.size() < count) {
      chunks.insert(uint32_t(random() % 2 ? random() % num_chunks : random() % 5));
    }
    steps.emplace_back(chunks.begin(), chunks.end());
  }
  return steps;
}

struct Traffic {
  size_t loads = 0, from_source = 0;
};

Traffic traffic(const Steps& steps, size_t num_chunks, const ChunkCapacity& capacity) {
  ChunkPlan plan(num_chunks, capacity);
  plan.append(steps);
  Traffic sum;
  for (size_t i = 0; i < steps.size(); ++i) {
    for (const ChunkLoad& load : plan.next().loads) {
      ++sum.loads;
      sum.from_source += load.promote_from ? 0 : 1;
    }
  }
  return sum;
}

size_t loads(const Steps& steps, size_t num_chunks, size_t slots) {
  return traffic(steps, num_chunks, {slots, 0, 0}).loads;
}

/// What the algorithm that knows no future would load: the least recently used goes first.
size_t loads_of_lru(const Steps& steps, size_t slots) {
  std::list<uint32_t> order;  // the most recent first
  size_t count = 0;
  for (const auto& chunks : steps) {
    for (const uint32_t chunk : chunks) {
      const auto found = std::find(order.begin(), order.end(), chunk);
      if (found == order.end()) {
        ++count;
      } else {
        order.erase(found);
      }
      order.push_front(chunk);
    }
    while (order.size() > slots) order.pop_back();
  }
  return count;
}

/// The fewest loads that any choice of victims needs; tries all.
size_t fewest_loads(const std::vector<uint32_t>& trace, size_t slots, size_t at = 0,
                    std::set<uint32_t> resident = {}) {
  while (at < trace.size() && resident.contains(trace[at])) ++at;
  if (at == trace.size()) return 0;
  const uint32_t chunk = trace[at];
  if (resident.size() < slots) {
    resident.insert(chunk);
    return 1 + fewest_loads(trace, slots, at + 1, resident);
  }
  size_t best = trace.size();
  for (const uint32_t victim : resident) {
    std::set<uint32_t> next = resident;
    next.erase(victim);
    next.insert(chunk);
    best = std::min(best, 1 + fewest_loads(trace, slots, at + 1, next));
  }
  return best;
}

/// Carries out a plan, and looks whether each step finds what it needs.
class Memory {
 public:
  explicit Memory(const ChunkCapacity& capacity)
      : capacity_(capacity), slots_(capacity.memory_slots), scratch_(capacity.scratch_slots) {}

  bool carry_out(const StepChunks& planned) {
    bool right = true;
    for (const ChunkLoad& load : planned.loads) {
      Slot& slot = slots_.at(load.slot);
      right &= load.number == ++loads_;
      right &= load.free_after == 0 || load.free_after + capacity_.lookahead <= planned.step;
      right &= slot.last_use < load.free_after || slot.number == 0;
      if (load.demote_to) {
        right &= slot.chunk == load.evicted;
        scratch_.at(*load.demote_to) = load.evicted;
      }
      if (load.promote_from) right &= scratch_.at(*load.promote_from) == load.chunk;
      for (const EarlierLoad& earlier : load.after) right &= earlier.number < load.number;
      slot = {load.chunk, load.number, 0};
    }
    for (const ChunkPlace& place : planned.places) {
      Slot& slot = slots_.at(place.slot);
      right &= slot.chunk == place.chunk && slot.number == place.number;
      slot.last_use = planned.step;
    }
    return right;
  }

 private:
  struct Slot {
    uint32_t chunk = 0;
    uint64_t number = 0, last_use = 0;
  };
  ChunkCapacity capacity_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> scratch_;
  uint64_t loads_ = 0;
};

}  // namespace

TEST_CASE("what is needed last goes first: no choice of victims loads less", "[cache]") {
  std::mt19937 random(11);
  for (int i = 0; i < 200; ++i) {
    std::vector<uint32_t> trace(10);
    for (uint32_t& chunk : trace) chunk = uint32_t(random() % 5);
    const size_t slots = 1 + random() % 4;
    CHECK(loads(one_each(trace), 5, slots) == fewest_loads(trace, slots));
  }
}

TEST_CASE("knowing the future is never worse than to guess it from the past", "[cache]") {
  const size_t slots = GENERATE(8, 13, 50, 99, 100);
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Steps steps = random_steps(100, 400, seed);
    CHECK(loads(steps, 100, slots) <= loads_of_lru(steps, slots));
  }
  const Steps epochs = epochs_of(100, 8, 4);
  CHECK(loads(epochs, 100, slots) <= loads_of_lru(epochs, slots));
}

TEST_CASE("half of a set in memory saves more than half of the loads that a guess saves",
          "[cache]") {
  const Steps steps = epochs_of(1000, 10, 5);
  const size_t known = loads(steps, 1000, 500), guessed = loads_of_lru(steps, 500);
  CHECK(known < 3500);    // of 5000
  CHECK(guessed > 4000);  // an epoch's end is the next one's beginning by chance alone
}

TEST_CASE("every step finds its chunks where the plan says, whatever the capacities", "[cache]") {
  const size_t slots = GENERATE(8, 16, 40, 100);
  const size_t scratch = GENERATE(0, 1, 30, 100);
  const uint64_t lookahead = lookahead_for(slots, 4);
  const Steps steps = random_steps(100, 600, 5);
  const ChunkCapacity capacity{slots, scratch, lookahead};
  ChunkPlan plan(100, capacity);
  Memory memory(capacity);
  bool right = true;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (i % 200 == 0) {
      const auto from = steps.begin() + std::ptrdiff_t(i);
      plan.append({from, from + std::min<std::ptrdiff_t>(200, steps.end() - from)});
    }
    right &= memory.carry_out(plan.next());
  }
  CHECK(right);
}

TEST_CASE("a plan may begin anywhere, and what fits into memory is loaded once", "[cache]") {
  const Steps steps = epochs_of(60, 7, 3);
  ChunkPlan plan(60, {60, 10, 16}, 1000);
  plan.append(steps);
  size_t count = 0;
  for (uint64_t step = 1000; step < 1000 + steps.size(); ++step) {
    const StepChunks planned = plan.next();
    CHECK(planned.step == step);
    for (const ChunkLoad& load : planned.loads) {
      CHECK(load.free_after == 0);
      CHECK_FALSE(load.demote_to);
      ++count;
    }
  }
  CHECK(count == 60);
}

TEST_CASE("what memory and scratch hold together is read from the source once", "[cache]") {
  const Steps steps = epochs_of(100, 5, 4);
  CHECK(traffic(steps, 100, {40, 61, 0}).from_source == 100);  // one changes places
  CHECK(traffic(steps, 100, {40, 100, 2}).from_source == 100);
  const size_t partly = traffic(steps, 100, {40, 30, 0}).from_source;
  CHECK(partly > 100);
  CHECK(partly < traffic(steps, 100, {40, 0, 0}).from_source);
}

TEST_CASE("what is kept elsewhere does not go to scratch", "[cache]") {
  const Steps steps = epochs_of(60, 5, 3);
  std::vector<bool> is_elsewhere(60);
  for (size_t i = 0; i < 60; i += 2) is_elsewhere[i] = true;
  ChunkPlan plan(60, {20, 60, 1}, 0, is_elsewhere);
  plan.append(steps);
  size_t demoted = 0;
  bool right = true;
  for (size_t i = 0; i < steps.size(); ++i) {
    for (const ChunkLoad& load : plan.next().loads) {
      right &= !load.demote_to || !is_elsewhere[load.evicted];
      right &= !load.promote_from || !is_elsewhere[load.chunk];
      demoted += load.demote_to ? 1 : 0;
    }
  }
  CHECK(right);
  CHECK(demoted > 0);
}

TEST_CASE("loads can be under way some steps ahead, if the memory allows it", "[cache]") {
  CHECK(lookahead_for(1000, 10) == 12);
  CHECK(lookahead_for(100000, 10) == 16);
  CHECK(lookahead_for(20, 10) == 1);
  CHECK(lookahead_for(19, 10) == 0);
  CHECK_THROWS_WITH(lookahead_for(9, 10),
                    "a step needs 10 chunks at once, and there is room for 9");
}
