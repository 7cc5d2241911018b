#include "runtime/c_api/leaf_sum.h"

#include <algorithm>

#include "base/error.h"
#include "base/vector_clones.h"

namespace dlflow::runtime {
namespace {

/// This many numbers of each level fit in the L1 cache.
constexpr size_t kTile = 2048;

// No fused multiply-add (dlflow_same_bits), since products that travel to another rank are rounded.
DLFLOW_VECTOR_CLONES
void write_scaled(float* __restrict into, const float* __restrict values, float scale,
                  size_t count) {
  for (size_t i = 0; i < count; ++i) into[i] = scale * values[i];
}

DLFLOW_VECTOR_CLONES
void add_scaled(float* __restrict into, const float* __restrict values, float scale, size_t count) {
  for (size_t i = 0; i < count; ++i) into[i] += scale * values[i];
}

DLFLOW_VECTOR_CLONES
void add_zeros(float* into, size_t count) {  // turns -0.0 into 0.0, as on another rank
  for (size_t i = 0; i < count; ++i) into[i] += 0.0f;
}

DLFLOW_VECTOR_CLONES
void add_level(float* __restrict into, const float* __restrict values, size_t count) {
  for (size_t i = 0; i < count; ++i) into[i] += values[i];
}

/// A leaf that is immediately added to the level below it needs no level of its own.
size_t num_levels(const LeafShare& share) {
  size_t height = 0, highest = share.num_parts;
  for (const uint8_t additions : share.additions) {
    if (additions == 0) highest = std::max(highest, height + 1);
    height = height + 1 - additions;
  }
  return highest;
}

}  // namespace

LeafSum::LeafSum(Communicator& comm, size_t num_leaves, size_t count)
    : share_(leaf_share(num_leaves, comm.rank(), comm.size())),
      count_(count),
      allreduce_(comm, count, {.order = sum_in_leaf_order(num_leaves, comm.size())}),
      waiting_(make_aligned_floats((num_levels(share_) - share_.num_parts) * count)) {
  size_t height = 0;
  for (const uint8_t additions : share_.additions) {
    height_of_.push_back(height);
    height = height + 1 - additions;
  }
}

float* LeafSum::level(size_t height) {
  if (height < share_.num_parts) return allreduce_.part(height).data();
  return waiting_.get() + (height - share_.num_parts) * count_;
}

void LeafSum::add(size_t leaf, size_t first, size_t count, const float* values, float scale) {
  const size_t top = height_of_.at(leaf);
  const size_t additions = share_.additions[leaf];
  for (size_t done = 0; done < count; done += kTile) {
    const size_t size = std::min(kTile, count - done), at = first + done;
    float* const into = level(additions == 0 ? top : top - 1) + at;
    if (values == nullptr) {
      if (additions == 0) {
        std::fill_n(into, size, 0.0f);
      } else {
        add_zeros(into, size);
      }
    } else if (additions == 0) {
      write_scaled(into, values + done, scale, size);
    } else {
      add_scaled(into, values + done, scale, size);
    }
    for (size_t n = 1; n < additions; ++n) {
      add_level(level(top - n - 1) + at, level(top - n) + at, size);
    }
  }
}

Task LeafSum::sum(size_t first, size_t count) {
  if (count == 0) co_return;
  const Allreduce::Ticket ticket = allreduce_.start(first, count);
  co_await Until(-1, [this, ticket] {
    allreduce_.poll();
    return allreduce_.done(ticket);
  });
}

}  // namespace dlflow::runtime
