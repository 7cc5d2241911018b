#include "runtime/data/encoded_images.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace dlflow::runtime {

void EncodedImages::add(Place place) {
  DLFLOW_CHECK(!part_);
  behind_.push_back(num_pictures() + place.ends.size());
  places_.push_back(std::move(place));
}

void EncodedImages::add(const EncodedImages& other) {
  DLFLOW_CHECK(!other.part_ && this != &other);
  for (const Place& place : other.places_) add(place);
}

EncodedImages EncodedImages::select(const Subset& part) const {
  DLFLOW_CHECK(!part_);
  EncodedImages chosen = *this;
  chosen.part_ = part;
  return chosen;
}

EncodedImages::Found EncodedImages::find(size_t index) const {
  const size_t picture = part_ ? (*part_)[index] : index;
  const auto place = size_t(std::ranges::upper_bound(behind_, picture) - behind_.begin());
  return {places_[place], picture - (place == 0 ? 0 : behind_[place - 1])};
}

std::span<const uint8_t> EncodedImages::operator[](size_t index) const {
  const Found found = find(index);
  const uint64_t begin = found.number == 0 ? 0 : found.place.ends[found.number - 1];
  return {found.place.bytes + begin, size_t(found.place.ends[found.number] - begin)};
}

std::string EncodedImages::name_of(size_t index) const {
  const Found found = find(index);
  return found.place.name + ": sample " + std::to_string(found.number);
}

bool EncodedImages::operator==(const EncodedImages& other) const {
  if (size() != other.size()) return false;
  for (size_t i = 0; i < size(); ++i) {
    if (!std::ranges::equal((*this)[i], other[i])) return false;
  }
  return true;
}

}  // namespace dlflow::runtime
