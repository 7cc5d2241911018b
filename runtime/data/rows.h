#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/data/subset.h"

namespace dlflow::runtime {

/// Rows of equal length, consecutive in each of a few blocks, which are vectors or mapped files; or
/// a part of such rows. Takes memory per block and none per row. Copies share the rows.
template <typename T>
class Rows {
 public:
  Rows() = default;

  /// All of `values`, in rows of `row_size`.
  Rows(std::vector<T> values, size_t row_size) {
    const size_t count = row_size == 0 ? 0 : values.size() / row_size;
    const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    add(owner->data(), count, row_size, owner);
  }

  /// Adds `count` consecutive rows in memory that `owner` keeps.
  void add(const T* first, size_t count, size_t row_size, std::shared_ptr<const void> owner) {
    DLFLOW_CHECK(!part_ && (row_size_ == row_size || blocks_.empty()));
    row_size_ = row_size;
    blocks_.push_back({first, num_rows() + count, std::move(owner)});
  }

  /// Adds all of `other`, which must not be a part and must have rows of the same length.
  void add(const Rows& other) {
    DLFLOW_CHECK(!other.part_ && this != &other);
    for (const Block& block : other.blocks_) {
      add(block.first, block.end - other.first_of(block), other.row_size_, block.owner);
    }
  }

  /// Returns the rows of `part`.
  Rows select(const Subset& part) const {
    DLFLOW_CHECK(!part_);
    Rows chosen = *this;
    chosen.part_ = part;
    return chosen;
  }

  size_t size() const { return part_ ? part_->size() : num_rows(); }

  std::span<const T> operator[](size_t index) const {
    const size_t row = part_ ? (*part_)[index] : index;
    const Block& block = *std::ranges::upper_bound(blocks_, row, {}, &Block::end);
    return {block.first + (row - first_of(block)) * row_size_, row_size_};
  }

  bool operator==(const Rows& other) const {
    if (size() != other.size()) return false;
    for (size_t i = 0; i < size(); ++i) {
      if (!std::ranges::equal((*this)[i], other[i])) return false;
    }
    return true;
  }

 private:
  struct Block {
    const T* first;
    size_t end;  // index behind its last row
    std::shared_ptr<const void> owner;
  };
  size_t num_rows() const { return blocks_.empty() ? 0 : blocks_.back().end; }
  size_t first_of(const Block& block) const {
    return &block == blocks_.data() ? 0 : (&block - 1)->end;
  }

  size_t row_size_ = 0;
  std::vector<Block> blocks_;
  std::optional<Subset> part_;  // none: all rows
};

}  // namespace dlflow::runtime
