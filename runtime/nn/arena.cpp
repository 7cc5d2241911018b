#include "runtime/nn/arena.h"

#include <algorithm>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kAlignment = 64;

}  // namespace

dnnl::memory Arena::add(const dnnl::memory::desc& desc, int time) {
  dnnl::memory memory(desc, engine_, DNNL_MEMORY_NONE);
  const size_t bytes = (desc.get_size() + kAlignment - 1) / kAlignment * kAlignment;
  blocks_.push_back({{memory}, bytes, time, time, 0});
  return memory;
}

dnnl::memory Arena::view(const dnnl::memory& memory, const dnnl::memory::desc& desc) {
  Block* block = find(memory);
  DLFLOW_CHECK(block != nullptr && desc.get_size() <= block->bytes);
  block->views.push_back(dnnl::memory(desc, engine_, DNNL_MEMORY_NONE));
  return block->views.back();
}

void Arena::keep(const dnnl::memory& memory, int time) {
  if (Block* block = find(memory)) block->last = std::max(block->last, time);
}

void Arena::allocate() {
  std::vector<Block*> by_size;
  for (Block& block : blocks_) by_size.push_back(&block);
  std::ranges::stable_sort(by_size, std::greater<>(), &Block::bytes);
  std::vector<const Block*> placed;  // by offset
  size_t end = 0;
  for (Block* block : by_size) {
    size_t offset = 0;  // the first gap among those that live at the same time
    for (const Block* other : placed) {
      if (other->last < block->first || block->last < other->first) continue;
      if (offset + block->bytes <= other->offset) break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    block->offset = offset;
    end = std::max(end, offset + block->bytes);
    placed.insert(std::ranges::upper_bound(placed, offset, {}, &Block::offset), block);
  }
  buffer_ = HugeBuffer(end / sizeof(float));
  for (Block& block : blocks_) {
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
