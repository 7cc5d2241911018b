#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

/// The progress of a step's transfers, as lines of $DLFLOW_METRICS.
namespace dlflow::steps {

/// Bytes done and to do, over all files. A line is written at most twice a second. Any thread may
/// call.
class Progress {
 public:
  Progress(const std::filesystem::path& metrics, size_t num_files);

  /// The size of a file is known (before it is transferred, if possible).
  void set_total(size_t file, uint64_t bytes);

  /// `bytes` of a file are transferred now.
  void set_done(size_t file, uint64_t bytes);

  /// The file is where it should be, from wherever: all of its bytes are done.
  void complete(size_t file);

  /// Writes the last line, with a sentence for people.
  void finish(const std::string& message);

 private:
  // The caller of these holds mutex_.
  void write_line_if_due();
  void write_line(const std::string& message);

  struct File {
    uint64_t done_bytes = 0;
    std::optional<uint64_t> total_bytes;
  };

  std::mutex mutex_;
  AppendFile metrics_;
  std::vector<File> files_;
  std::chrono::steady_clock::time_point next_line_{};
};

}  // namespace dlflow::steps
