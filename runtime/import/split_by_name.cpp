#include "runtime/import/split_by_name.h"

#include <fmt/core.h>

#include <cmath>

#include "base/error.h"
#include "base/sha256.h"
#include "runtime/data/split_files.h"

namespace dlflow::runtime {

uint64_t hash_of(const std::string& text) {
  constexpr size_t kDigits = 16;  // 64 bits
  return std::stoull(sha256_hex(text).substr(0, kDigits), nullptr, 16);
}

Split split_of(const std::string& name, const SplitShares& shares) {
  const double drawn = std::ldexp(double(hash_of(name)), -64);
  if (drawn < shares.test) return Split::Test;
  return 1 - drawn <= shares.validation ? Split::Validation : Split::Train;
}

std::map<Split, std::vector<size_t>> split_by_name(std::span<const std::string> names,
                                                   const SplitShares& shares) {
  std::map<Split, std::vector<size_t>> parts = {{Split::Train, {}}};
  if (shares.test > 0) parts[Split::Test];
  if (shares.validation > 0) parts[Split::Validation];
  for (size_t i = 0; i < names.size(); ++i) parts[split_of(names[i], shares)].push_back(i);
  for (const auto& [split, samples] : parts) {
    if (!samples.empty()) continue;
    throw Error(Errc::InvalidInput,
                fmt::format("none of the {} samples would be in the {} split; choose another "
                            "--{}-share, or add samples",
                            names.size(), split_name(split),
                            split == Split::Validation ? "validation" : "test"));
  }
  return parts;
}

SampleSource part_of(const SampleSource& source, const std::vector<size_t>& samples) {
  SampleSource part = source;
  part.labels.clear();
  part.targets.clear();
  part.encoded_sizes.clear();
  for (const size_t sample : samples) {
    if (!source.encoded_sizes.empty()) part.encoded_sizes.push_back(source.encoded_sizes[sample]);
    if (source.num_targets == 0) {
      part.labels.push_back(source.labels[sample]);
      continue;
    }
    const auto row = source.targets.begin() + std::ptrdiff_t(sample * source.num_targets);
    part.targets.insert(part.targets.end(), row, row + source.num_targets);
  }
  part.image = [image = source.image, samples](size_t sample) { return image(samples[sample]); };
  return part;
}

}  // namespace dlflow::runtime
