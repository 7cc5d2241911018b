#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

/// How far staging is, as lines of $DLFLOW_METRICS.
namespace dlflow::steps {

/// Bytes done and to do, over all sources. A line is written at most twice a second.
class Progress {
 public:
  Progress(const std::filesystem::path& metrics, size_t num_sources);

  /// The size of a source is known (before it is staged, if possible).
  void set_total(size_t source, uint64_t bytes);

  /// `bytes` of a source are here now.
  void set_done(size_t source, uint64_t bytes);

  /// The source is staged, from wherever: all of its bytes are done.
  void complete(size_t source);

  /// Writes the last line, with a sentence for people.
  void finish(const std::string& message);

 private:
  void write_line(const std::string& message);

  struct Source {
    uint64_t done_bytes = 0;
    std::optional<uint64_t> total_bytes;
  };

  AppendFile metrics_;
  std::vector<Source> sources_;
  std::chrono::steady_clock::time_point next_line_{};
};

}  // namespace dlflow::steps
