#include "runtime/import/checked_samples.h"

#include <fmt/core.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/data/names.h"
#include "runtime/data/sharded_dataset.h"
#include "runtime/text/token_samples.h"

namespace dlflow::runtime {
namespace {

/// Returns the location of value `index` of a sample, for messages.
std::string place_of(const ImageShape& shape, size_t index) {
  const size_t plane = size_t(shape.height) * shape.width;
  if (plane == 1) return fmt::format("value {}", index);
  return fmt::format("channel {}, row {}, column {}", index / plane, index % plane / shape.width,
                     index % shape.width);
}

/// Checks the source `whole`, sample by sample.
struct Checked {
  const SampleSource& whole;
  const std::string& name;
  bool has_refused = false;

  std::string_view image(size_t sample) const {
    require_finite_targets(sample);
    const std::string_view bytes = whole.image(sample);
    if (whole.pixel_type == PixelType::Float) require_finite(bytes, whole.shape, sample, name);
    return bytes;
  }

  void require_finite_targets(size_t sample) const {
    for (size_t i = 0; i < whole.num_targets; ++i) {
      const float target = whole.targets[sample * whole.num_targets + i];
      if (std::isfinite(target)) continue;
      throw Error(Errc::Corrupt, fmt::format("{}: sample {}: target {} is {}", name, sample, i,
                                             std::isnan(target) ? "NaN" : "infinite"));
    }
  }

  std::string_view image_to_write(size_t sample) {
    try {
      return image(sample);
    } catch (const Error&) {
      has_refused = true;
      throw;
    }
  }
};

/// Checks all samples, in any order, and throws an Error that names the bad ones.
[[noreturn]] void refuse_all(const Checked& checked) {
  const size_t num_samples = checked.whole.size();
  std::vector<std::string> named;
  size_t num_bad = 0;
  for (size_t sample = 0; sample < num_samples; ++sample) {
    try {
      checked.image(sample);
    } catch (const Error& error) {
      if (++num_bad <= kMaxNamedSamples) named.push_back("  " + std::string(error.what()));
    }
  }
  if (num_bad > named.size()) named.push_back(fmt::format("  and {} more", num_bad - named.size()));
  const std::string them = num_bad == 1 ? "it, or take it out:" : "them, or take them out:\n";
  throw Error(Errc::InvalidInput,
              fmt::format("{}: {} of {} samples cannot be used; repair {}", checked.name,
                          format_count(num_bad), format_count(num_samples), them) +
                  (num_bad == 1 ? named[0].substr(1) : join(named, "\n")));
}

}  // namespace

void require_finite(std::string_view values, const ImageShape& shape, size_t sample,
                    const std::string& name) {
  size_t num_bad = 0, first = 0;
  float bad = 0;
  for (size_t i = 0; i < values.size() / sizeof(float); ++i) {
    float value;
    std::memcpy(&value, values.data() + i * sizeof(float), sizeof(float));
    if (std::isfinite(value)) continue;
    if (num_bad++ == 0) {
      first = i;
      bad = value;
    }
  }
  if (num_bad == 0) return;
  const std::string others = num_bad == 1 ? "" : fmt::format(", and {} more values", num_bad - 1);
  throw Error(Errc::Corrupt,
              fmt::format("{}: sample {}: {} is {}{}", name, sample, place_of(shape, first),
                          std::isnan(bad) ? "NaN" : "infinite", others));
}

void write_checked(const SampleSource& source, const std::string& name,
                   const std::function<void(const SampleSource&)>& write) {
  Checked checked{source, name};
  SampleSource passed_on = source;
  passed_on.image = [&checked](size_t sample) { return checked.image_to_write(sample); };
  try {
    write(passed_on);
  } catch (const Error&) {
    if (!checked.has_refused) throw;
    refuse_all(checked);
  }
}

std::vector<std::string> mistakes_in(const SplitFiles& split) {
  std::vector<std::string> mistakes;
  const auto note = [&](const auto& read) {
    try {
      read();
    } catch (const Error& error) {
      mistakes.emplace_back(error.what());
    }
  };
  const std::filesystem::path &file = split.files[0], folder = file.parent_path();
  const auto read = [&](Proof proof) {
    const Dataset dataset = read_split(split, proof);
    if (!dataset.tokenizer.empty()) read_vocabulary(dataset.tokenizer, folder);
    for (const char* names : {kClassNames, kColumnNames}) read_names(folder / names);
  };
  if (split.format != SplitFiles::Format::Shards) {
    note([&] { read(Proof::Hash); });
    return mistakes;
  }
  for (const Shard& shard : read_shard_index(file)) {
    note([&] { read_shard(file, shard, Proof::Hash); });
  }
  if (mistakes.empty()) note([&] { read(Proof::Structure); });
  return mistakes;
}

}  // namespace dlflow::runtime
