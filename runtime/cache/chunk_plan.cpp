#include "runtime/cache/chunk_plan.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>

#include "base/error.h"

namespace dlflow::runtime {

std::vector<uint32_t> FarthestFirst::take_all() {
  std::vector<uint32_t> chunks;
  chunks.reserve(order_.size());
  for (const auto& [next_use, chunk] : order_) chunks.push_back(chunk);
  order_.clear();
  return chunks;
}

void FutureUses::append(std::span<const std::vector<uint32_t>> steps) {
  Part part{known_, known_ + steps.size(), std::vector<uint32_t>(num_chunks_ + 1), {}, {}};
  for (const auto& chunks : steps) {
    for (const uint32_t chunk : chunks) ++part.begin[chunk + 1];
  }
  std::partial_sum(part.begin.begin(), part.begin.end(), part.begin.begin());
  part.uses.resize(part.begin.back());
  part.last.assign(part.begin.begin(), part.begin.end() - 1);
  for (size_t i = 0; i < steps.size(); ++i) {
    for (const uint32_t chunk : steps[i]) part.uses[part.last[chunk]++] = uint32_t(i);
  }
  known_ = part.end;
  parts_.push_back(std::move(part));
}

uint64_t FutureUses::after(uint64_t step, uint32_t chunk) {
  while (!parts_.empty() && parts_.front().end <= step) parts_.pop_front();
  for (Part& part : parts_) {
    uint32_t& begin = part.begin[chunk];
    while (begin < part.last[chunk] && part.first + part.uses[begin] <= step) ++begin;
    if (begin < part.last[chunk]) return part.first + part.uses[begin];
  }
  return kNever;
}

uint64_t lookahead_for(size_t memory_slots, size_t chunks_per_step) {
  constexpr uint64_t kMost = 16;
  if (memory_slots < chunks_per_step) {
    throw Error(Errc::InvalidInput, "a step needs " + std::to_string(chunks_per_step) +
                                        " chunks at once, and there is room for " +
                                        std::to_string(memory_slots));
  }
  const uint64_t cheap = memory_slots / (8 * std::max<size_t>(chunks_per_step, 1));
  return std::clamp<uint64_t>(cheap, memory_slots >= 2 * chunks_per_step ? 1 : 0, kMost);
}

ChunkPlan::ChunkPlan(size_t num_chunks, const ChunkCapacity& capacity, uint64_t first_step,
                     std::vector<bool> is_elsewhere)
    : capacity_(capacity),
      is_elsewhere_(std::move(is_elsewhere)),
      future_(num_chunks, first_step),
      step_(first_step),
      states_(num_chunks),
      evictable_(num_chunks),
      on_scratch_(num_chunks),
      last_on_scratch_(capacity.scratch_slots) {}

void ChunkPlan::append(std::vector<std::vector<uint32_t>> steps) {
  future_.append(steps);
  std::ranges::move(steps, std::back_inserter(steps_));
  // What seemed to be needed never again has a next use now.
  for (const uint32_t chunk : evictable_.take_all()) {
    evictable_.insert(chunk, future_.after(states_[chunk].last_use, chunk));
  }
  for (const uint32_t chunk : on_scratch_.take_all()) {
    const State& state = states_[chunk];
    on_scratch_.insert(chunk,
                       state.slot == kNowhere ? future_.after(state.last_use, chunk) : kNever);
  }
}

StepChunks ChunkPlan::next() {
  DLFLOW_CHECK(step_ < known_steps());
  StepChunks planned{step_, {}, {}};
  const std::vector<uint32_t> chunks = std::move(steps_.front());
  steps_.pop_front();
  make_evictable(step_);
  for (const uint32_t chunk : chunks) {
    evictable_.erase(chunk);
    states_[chunk].last_use = step_;
  }
  for (const uint32_t chunk : chunks) {
    if (states_[chunk].slot == kNowhere) load(chunk, planned);
    planned.places.push_back({chunk, states_[chunk].slot, states_[chunk].number});
    recent_.emplace_back(step_, chunk);
  }
  std::sort(planned.places.begin(), planned.places.end(),
            [](const ChunkPlace& a, const ChunkPlace& b) { return a.chunk < b.chunk; });
  ++step_;
  return planned;
}

/// What was last used so long ago that a load for `step` may take its place.
void ChunkPlan::make_evictable(uint64_t step) {
  while (!recent_.empty() && recent_.front().first + capacity_.lookahead < step) {
    const auto [used, chunk] = recent_.front();
    recent_.pop_front();
    if (states_[chunk].last_use == used) evictable_.insert(chunk, future_.after(used, chunk));
  }
}

void ChunkPlan::load(uint32_t chunk, StepChunks& planned) {
  State& state = states_[chunk];
  ChunkLoad load;
  load.number = ++num_loads_;
  load.chunk = chunk;
  if (state.scratch_slot != kNowhere) {
    load.promote_from = state.scratch_slot;
    on_scratch_.erase(chunk);  // not to be overwritten by what makes room for it
  }
  if (used_slots_ < capacity_.memory_slots) {
    load.slot = used_slots_++;
  } else {
    evict(load);
  }
  if (load.promote_from) load.after[0] = use_scratch(*load.promote_from, load);
  if (load.demote_to) load.after[1] = use_scratch(*load.demote_to, load);
  // Its copy on scratch is the first to go there: it is in memory now.
  if (state.scratch_slot != kNowhere) on_scratch_.insert(chunk, kNever);
  state.slot = load.slot;
  state.number = load.number;
  planned.loads.push_back(load);
}

void ChunkPlan::evict(ChunkLoad& load) {
  DLFLOW_CHECK(!evictable_.empty());
  const uint32_t chunk = evictable_.farthest();
  const uint64_t next_use = evictable_.farthest_use();
  State& state = states_[chunk];
  evictable_.erase(chunk);
  load.slot = std::exchange(state.slot, kNowhere);
  load.free_after = state.last_use + 1;
  if (!is_elsewhere_.empty() && is_elsewhere_[chunk]) return;
  if (state.scratch_slot != kNowhere) {
    on_scratch_.erase(chunk);
    on_scratch_.insert(chunk, next_use);
    return;
  }
  const auto scratch_slot = take_scratch_slot(next_use);
  if (!scratch_slot) return;
  load.evicted = chunk;
  load.demote_to = scratch_slot;
  state.scratch_slot = *scratch_slot;
  on_scratch_.insert(chunk, next_use);
}

std::optional<uint32_t> ChunkPlan::take_scratch_slot(uint64_t next_use) {
  if (used_scratch_slots_ < capacity_.scratch_slots) return used_scratch_slots_++;
  if (on_scratch_.empty() || on_scratch_.farthest_use() <= next_use) return std::nullopt;
  const uint32_t goes = on_scratch_.farthest();
  on_scratch_.erase(goes);
  return std::exchange(states_[goes].scratch_slot, kNowhere);
}

/// Who used it before.
EarlierLoad ChunkPlan::use_scratch(uint32_t scratch_slot, const ChunkLoad& load) {
  return std::exchange(last_on_scratch_[scratch_slot], {load.slot, load.number});
}

}  // namespace dlflow::runtime
