#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/subset.h"

namespace dlflow::runtime {

/// Pictures as JPEG files, or texts as tokens, consecutive in each of a few mapped files; or a part
/// of them. Takes memory per file and none per picture. Copies share the pictures.
class EncodedImages {
 public:
  /// Pictures of one file, and their ends; the first begins at `bytes`.
  struct SampleFile {
    const uint8_t* bytes = nullptr;
    std::span<const uint64_t> ends;
    std::string name;  ///< file name for messages
    std::shared_ptr<const void> owner;
  };
  void add(SampleFile file);

  /// Adds all of `other`, which must not be a part.
  void add(const EncodedImages& other);

  /// Returns the pictures of `part`.
  EncodedImages select(const Subset& part) const;

  size_t size() const { return part_ ? part_->size() : num_pictures(); }

  /// The bytes of a picture.
  std::span<const uint8_t> operator[](size_t index) const;

  /// Returns "set/train.dlset: sample 17", for users.
  std::string name_of(size_t index) const;

  bool operator==(const EncodedImages& other) const;

 private:
  struct Found {
    const SampleFile& file;
    size_t number;  ///< index in `file`
  };
  Found find(size_t index) const;
  size_t num_pictures() const { return behind_.empty() ? 0 : behind_.back(); }

  std::vector<SampleFile> files_;
  std::vector<size_t> behind_;  // end index of each file
  std::optional<Subset> part_;  // none: all pictures
};

}  // namespace dlflow::runtime
