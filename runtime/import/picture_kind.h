#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "runtime/data/dataset.h"

namespace dlflow::runtime {

/// Size, colours and depth of a picture.
struct PictureKind {
  ImageShape shape = {1, 1, 1};
  bool is_wide = false;  ///< 16 bits per value

  bool operator==(const PictureKind&) const = default;
};

/// The kind that all pictures of a data set should have.
class UsualKind {
 public:
  using KindOf = std::function<PictureKind(size_t)>;

  /// Starts with the kind of the first readable file. `kind_of` takes a file's number, and throws
  /// Error if it is unreadable; reading the samples reports all such files at once.
  UsualKind(std::vector<std::filesystem::path> files, KindOf kind_of);
  UsualKind() = default;

  const PictureKind& operator*() const { return kind_; }
  const PictureKind* operator->() const { return &kind_; }

  /// Throws Error{InvalidInput} unless file number `sample` is of this kind. The first mismatch
  /// makes this look at all files and use the most frequent kind: if one odd picture comes before
  /// sixty others, the odd one is reported.
  void require(size_t sample, const PictureKind& own);

 private:
  void count_kinds();
  [[noreturn]] void refuse(size_t sample, const PictureKind& own) const;

  std::vector<std::filesystem::path> files_;
  KindOf kind_of_;
  size_t first_ = 0;  // first file of this kind
  size_t count_ = 0;  // number of such files, once all are read
  PictureKind kind_;
  bool has_counted_ = false;
};

}  // namespace dlflow::runtime
