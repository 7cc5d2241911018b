#include "runtime/cache/shared_plan.h"

#include <cstring>
#include <new>
#include <type_traits>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

/// Begins a record; the loads, places and chunks of the part follow.
struct Header {
  uint64_t step, loads, places, of_part;
};

template <typename T>
std::byte* write(std::byte* to, const std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (values.empty()) return to;
  std::memcpy(to, values.data(), values.size() * sizeof(T));
  return to + values.size() * sizeof(T);
}

template <typename T>
const std::byte* read(const std::byte* from, uint64_t count, std::vector<T>& values) {
  if (count == 0) return from;
  values.resize(count);
  std::memcpy(static_cast<void*>(values.data()), from, count * sizeof(T));
  return from + count * sizeof(T);
}

}  // namespace

size_t SharedPlan::record_bytes(size_t chunks_per_step) {
  const size_t bytes_per_chunk = sizeof(ChunkLoad) + sizeof(ChunkPlace);  // more than of the part
  return whole_lines_of(sizeof(Header) + chunks_per_step * bytes_per_chunk);
}

size_t SharedPlan::bytes_for(const Dimensions& dimensions) {
  return (1 + size_t(dimensions.num_ranks)) * sizeof(Count) +
         kSteps * record_bytes(dimensions.chunks_per_step);
}

// Zeroed memory is what these atomics are after construction; every rank finds them in it.
SharedPlan::SharedPlan(std::byte* memory, const Dimensions& dimensions)
    : dimensions_(dimensions),
      record_bytes_(record_bytes(dimensions.chunks_per_step)),
      told_(std::launder(reinterpret_cast<Count*>(memory))),
      heard_(told_ + 1),
      records_(memory + (1 + size_t(dimensions.num_ranks)) * sizeof(Count)) {}

bool SharedPlan::tell(const PlannedStep& step) {
  const StepChunks& chunks = step.chunks;
  DLFLOW_CHECK(chunks.places.size() + step.of_part.size() <= dimensions_.chunks_per_step &&
               chunks.loads.size() <= chunks.places.size());
  const uint64_t number = told_->steps.load(std::memory_order_relaxed);
  for (int rank = 0; rank < dimensions_.num_ranks; ++rank) {
    if (number - heard_[rank].steps.load(std::memory_order_acquire) >= kSteps) return false;
  }
  const Header header{chunks.step, chunks.loads.size(), chunks.places.size(), step.of_part.size()};
  std::byte* at = record(number);
  std::memcpy(at, &header, sizeof(header));
  at = write(at + sizeof(header), chunks.loads);
  at = write(at, chunks.places);
  write(at, step.of_part);
  told_->steps.store(number + 1, std::memory_order_release);
  return true;
}

std::optional<PlannedStep> SharedPlan::hear(int rank) {
  const uint64_t number = heard_[rank].steps.load(std::memory_order_relaxed);
  if (told_->steps.load(std::memory_order_acquire) == number) return std::nullopt;
  const std::byte* at = record(number);
  Header header;
  std::memcpy(&header, at, sizeof(header));
  PlannedStep step;
  step.chunks.step = header.step;
  at = read(at + sizeof(header), header.loads, step.chunks.loads);
  at = read(at, header.places, step.chunks.places);
  read(at, header.of_part, step.of_part);
  heard_[rank].steps.store(number + 1, std::memory_order_release);
  return step;
}

}  // namespace dlflow::runtime
