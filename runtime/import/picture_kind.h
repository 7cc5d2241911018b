#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"

namespace dlflow::runtime {

/// Size, colours and depth of a picture.
struct PictureKind {
  ImageShape shape = {1, 1, 1};
  bool is_wide = false;  ///< 16 bits a value

  bool operator==(const PictureKind&) const = default;
};

/// The kind that all pictures of a data set should have.
class UsualKind {
 public:
  using KindOf = std::function<PictureKind(size_t)>;

  /// Takes the kind of the first file that `kind_of` can read, by number. It throws Error for
  /// others, which are refused when their turn comes, so that all are told at once.
  UsualKind(std::vector<std::filesystem::path> files, KindOf kind_of);
  UsualKind() = default;

  const PictureKind& operator*() const { return kind_; }
  const PictureKind* operator->() const { return &kind_; }

  /// Throws Error{InvalidInput} unless file number `sample` is of this kind. The first time, all
  /// files are looked at, and the most frequent kind is the usual one from then on: one odd picture
  /// in front of sixty is the odd one all the same.
  void require(size_t sample, const PictureKind& own);

 private:
  void count_kinds();
  [[noreturn]] void refuse(size_t sample, const PictureKind& own) const;

  std::vector<std::filesystem::path> files_;
  KindOf kind_of_;
  size_t first_ = 0;  // the first file of this kind
  PictureKind kind_;
  bool has_counted_ = false;
};

}  // namespace dlflow::runtime
