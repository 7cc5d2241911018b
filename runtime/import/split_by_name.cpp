#include "runtime/import/split_by_name.h"

#include <fmt/core.h>

#include <cmath>

#include "base/error.h"
#include "base/sha256.h"

namespace dlflow::runtime {

bool is_for_test(const std::string& name, double share) {
  constexpr size_t kDigits = 16;  // 64 bits
  const uint64_t drawn = std::stoull(sha256_hex(name).substr(0, kDigits), nullptr, 16);
  return std::ldexp(double(drawn), -64) < share;
}

NamedParts split_by_name(std::span<const std::string> names, double share) {
  NamedParts parts;
  for (size_t i = 0; i < names.size(); ++i) {
    (is_for_test(names[i], share) ? parts.test : parts.train).push_back(i);
  }
  if (!parts.train.empty() && !parts.test.empty()) return parts;
  throw Error(
      Errc::InvalidInput,
      fmt::format("of {} samples none would be for the {}; choose another --test-share than "
                  "{}, or add samples",
                  names.size(), parts.test.empty() ? "test" : "training", share));
}

SampleSource part_of(const SampleSource& source, const std::vector<size_t>& samples) {
  SampleSource part = source;
  part.labels.clear();
  part.targets.clear();
  for (const size_t sample : samples) {
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
