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

/// Counts bytes done and to do, over all files. Writes a line at most twice a second. Thread-safe.
class Progress {
 public:
  Progress(const std::filesystem::path& metrics, size_t num_files);

  /// Sets the size of a file (before its transfer, if possible).
  void set_total(size_t file, uint64_t bytes);

  /// Sets the bytes of a file transferred so far.
  void set_done(size_t file, uint64_t bytes);

  /// Marks a file as complete, wherever it came from.
  void complete(size_t file);

  /// Writes the last line, with a message for people.
  void finish(const std::string& message);

 private:
  // The caller holds mutex_.
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
