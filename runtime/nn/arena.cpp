#include "runtime/nn/arena.h"

#include <algorithm>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kAlignment = 64;

/// An operation that uses a value, at a time as schedule.h defines it.
struct Use {
  int operation;  ///< -1: the loss, or a later reader of the scores
  bool is_backward;
};

Use use_at(int time, int num_operations) {
  if (time < num_operations) return {time, false};
  if (time == num_operations || time > 2 * num_operations) return {-1, false};
  return {2 * num_operations - time, true};
}

}  // namespace

dnnl::memory Arena::add(const dnnl::memory::desc& desc, int time) {
  dnnl::memory memory(desc, engine_, DNNL_MEMORY_NONE);
  const size_t bytes = (desc.get_size() + kAlignment - 1) / kAlignment * kAlignment;
  blocks_.push_back({.views = {memory}, .bytes = bytes, .times = {time}});
  return memory;
}

dnnl::memory Arena::view(const dnnl::memory& memory, const dnnl::memory::desc& desc) {
  Block* block = find(memory);
  DLFLOW_CHECK(block != nullptr && desc.get_size() <= block->bytes);
  block->views.push_back(dnnl::memory(desc, engine_, DNNL_MEMORY_NONE));
  return block->views.back();
}

void Arena::keep(const dnnl::memory& memory, int time) {
  if (Block* block = find(memory)) block->times.insert(time);
}

/// A value is given up after the forward pass if only the segment that writes it uses it.
std::vector<Arena::Span> Arena::spans_of(const Block& block, const StepOrder& schedule) {
  const int n = schedule.num_operations(), written = *block.times.begin();
  const bool is_result = written < n;
  const int segment = is_result ? schedule.segment_of(written) : -1;
  bool is_given_up = segment >= 0;
  Span in_forward{written, written}, later{schedule.end(), 0}, whole{schedule.end(), 0};
  for (const int time : block.times) {
    const Use use = use_at(time, n);
    is_given_up =
        is_given_up && use.operation >= 0 && schedule.segment_of(use.operation) == segment;
    std::vector<int> places;
    if (use.operation < 0) {
      places = {time == n ? schedule.loss() : schedule.end()};
    } else if (use.is_backward) {
      places = {schedule.backward(use.operation)};
    } else {
      places = {schedule.forward(use.operation)};
      in_forward.last = std::max(in_forward.last, places[0]);
      if (schedule.is_recomputed(use.operation)) places.push_back(schedule.again(use.operation));
    }
    for (const int place : places) {
      whole = {std::min(whole.first, place), std::max(whole.last, place)};
      if (place > schedule.loss())
        later = {std::min(later.first, place), std::max(later.last, place)};
    }
  }
  if (!is_given_up) return {whole};
  return {in_forward, later};
}

bool Arena::live_together(const Block& a, const Block& b) {
  return std::ranges::any_of(a.spans, [&](const Span& one) {
    return std::ranges::any_of(b.spans, [&](const Span& other) {
      return one.first <= other.last && other.first <= one.last;
    });
  });
}

/// Places blocks largest first, each at the lowest address that is free during its lifetime.
size_t Arena::measure(const StepOrder& schedule) {
  std::vector<Block*> by_size;
  for (Block& block : blocks_) {
    block.spans = spans_of(block, schedule);
    by_size.push_back(&block);
  }
  std::ranges::stable_sort(by_size, std::greater<>(), &Block::bytes);
  std::vector<const Block*> placed;  // by offset
  size_t end = 0;
  for (Block* block : by_size) {
    size_t offset = 0;  // the first gap between blocks that live at the same time
    for (const Block* other : placed) {
      if (!live_together(*other, *block)) continue;
      if (offset + block->bytes <= other->offset) break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    block->offset = offset;
    end = std::max(end, offset + block->bytes);
    placed.insert(std::ranges::upper_bound(placed, offset, {}, &Block::offset), block);
  }
  return end;
}

std::vector<size_t> Arena::bytes_written(int num_operations) const {
  std::vector<size_t> bytes(size_t(num_operations), 0);
  for (const Block& block : blocks_) {
    const int written = *block.times.begin();
    if (written < num_operations) bytes[size_t(written)] += block.bytes;
  }
  return bytes;
}

void Arena::allocate(const StepOrder& schedule) {
  buffer_ = HugeBuffer(measure(schedule) / sizeof(float));
  for (Block& block : blocks_) {
    if (block.spans.size() > 1) given_up_.insert(*block.times.begin());
    for (dnnl::memory& view : block.views) {
      view.set_data_handle(buffer_.data() + block.offset / sizeof(float));
    }
  }
}

Arena::Block* Arena::find(const dnnl::memory& memory) {
  for (Block& block : blocks_) {
    for (const dnnl::memory& view : block.views) {
      if (view.get() == memory.get()) return &block;
    }
  }
  return nullptr;
}

}  // namespace dlflow::runtime
