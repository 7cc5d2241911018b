#include "runtime/data/encoded_images.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace dlflow::runtime {

void EncodedImages::add(SampleFile file) {
  DLFLOW_CHECK(!part_);
  behind_.push_back(num_pictures() + file.ends.size());
  files_.push_back(std::move(file));
}

void EncodedImages::add(const EncodedImages& other) {
  DLFLOW_CHECK(!other.part_ && this != &other);
  for (const SampleFile& file : other.files_) add(file);
}

EncodedImages EncodedImages::select(const Subset& part) const {
  DLFLOW_CHECK(!part_);
  EncodedImages chosen = *this;
  chosen.part_ = part;
  return chosen;
}

EncodedImages::Found EncodedImages::find(size_t index) const {
  const size_t picture = part_ ? (*part_)[index] : index;
  const auto file = size_t(std::ranges::upper_bound(behind_, picture) - behind_.begin());
  return {files_[file], picture - (file == 0 ? 0 : behind_[file - 1])};
}

std::span<const uint8_t> EncodedImages::operator[](size_t index) const {
  const Found found = find(index);
  const uint64_t begin = found.number == 0 ? 0 : found.file.ends[found.number - 1];
  return {found.file.bytes + begin, size_t(found.file.ends[found.number] - begin)};
}

std::string EncodedImages::name_of(size_t index) const {
  const Found found = find(index);
  return found.file.name + ": sample " + std::to_string(found.number);
}

bool EncodedImages::operator==(const EncodedImages& other) const {
  if (size() != other.size()) return false;
  for (size_t i = 0; i < size(); ++i) {
    if (!std::ranges::equal((*this)[i], other[i])) return false;
  }
  return true;
}

}  // namespace dlflow::runtime
