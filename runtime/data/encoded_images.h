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

/// Pictures as JPEG files, or texts as tokens, one behind the other in a few places, each a mapped
/// file; or a part of them. Takes memory for each place and none for a picture. Copies share the
/// pictures.
class EncodedImages {
 public:
  /// Pictures of one file, and where each ends: the first begins at `bytes`.
  struct Place {
    const uint8_t* bytes = nullptr;
    std::span<const uint64_t> ends;
    std::string name;  ///< of the file, for messages
    std::shared_ptr<const void> owner;
  };
  void add(Place place);

  /// Adds all of `other`, which is no part.
  void add(const EncodedImages& other);

  /// Those of `part`.
  EncodedImages select(const Subset& part) const;

  size_t size() const { return part_ ? part_->size() : num_pictures(); }

  /// The bytes of a picture.
  std::span<const uint8_t> operator[](size_t index) const;

  /// "set/train.dlset: sample 17", as people find it.
  std::string name_of(size_t index) const;

  bool operator==(const EncodedImages& other) const;

 private:
  struct Found {
    const Place& place;
    size_t number;  ///< in it
  };
  Found find(size_t index) const;
  size_t num_pictures() const { return behind_.empty() ? 0 : behind_.back(); }

  std::vector<Place> places_;
  std::vector<size_t> behind_;  // of each place: behind the number of its last picture
  std::optional<Subset> part_;  // nothing: all
};

}  // namespace dlflow::runtime
