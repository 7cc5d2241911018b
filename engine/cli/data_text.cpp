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
          ? fmt::format("with {} target{}", answers.targets, answers.targets == 1 ? "" : "s")
          : fmt::format("{} {} classes", answers.masks ? "with masks of" : "in", answers.classes);
  const char* const kind = type == runtime::PixelType::Float  ? "floats"
                           : type == runtime::PixelType::Jpeg ? "bytes from JPEG"
                                                              : "bytes";
  return fmt::format("{} samples of {} {} {}", format_count(samples), size, kind, learnt);
}

std::string describe_tokens(uint64_t samples, uint32_t length, uint64_t vocabulary,
                            double bytes_per_token) {
  return fmt::format("{} samples of {} tokens, vocabulary {}, {:.2f} bytes per token",
                     format_count(samples), format_count(length), format_count(vocabulary),
                     bytes_per_token);
}

}  // namespace dlflow
