#include "engine/cli/data_text.h"

#include <fmt/core.h>

#include "base/units.h"

namespace dlflow {

std::string describe_samples(uint64_t samples, const runtime::ImageShape& shape,
                             runtime::PixelType type, const Answers& answers) {
  const bool is_table = shape.height == 1 && shape.width == 1;
  const std::string size =
      is_table ? std::to_string(shape.channels)
               : fmt::format("{} x {} x {}", shape.channels, shape.height, shape.width);
  const std::string learnt =
      answers.targets > 0
          ? "with " + plural(answers.targets, "target")
          : fmt::format("{} {} classes", answers.masks ? "with masks of" : "in", answers.classes);
  const char* const kind = type == runtime::PixelType::Float  ? "floats"
                           : type == runtime::PixelType::Jpeg ? "bytes from JPEG"
                                                              : "bytes";
  return fmt::format("{} samples of {} {} {}", format_count(samples), size, kind, learnt);
}

std::string describe_tokens(const TokenCounts& counts, uint64_t vocabulary,
                            double bytes_per_token) {
  const double mean = double(counts.tokens) / double(counts.samples);
  const std::string classes =
      counts.classes > 0 ? fmt::format(", in {} classes", counts.classes) : "";
  return fmt::format("{} samples of {}{} tokens{}{}, vocabulary {}, {:.2f} bytes per token",
                     format_count(counts.samples), counts.unequal ? "up to " : "",
                     format_count(counts.length),
                     counts.unequal ? fmt::format(", {:.1f} on average", mean) : "", classes,
                     format_count(vocabulary), bytes_per_token);
}

}  // namespace dlflow
