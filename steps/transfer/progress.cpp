#include "steps/transfer/progress.h"

#include "base/json.h"

namespace dlflow::steps {

Progress::Progress(const std::filesystem::path& metrics, size_t num_files)
    : metrics_(metrics), files_(num_files) {}

void Progress::set_total(size_t file, uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  files_[file].total_bytes = bytes;
}

void Progress::set_done(size_t file, uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  files_[file].done_bytes = bytes;
  write_line_if_due();
}

void Progress::complete(size_t file) {
  const std::scoped_lock lock(mutex_);
  File& whole = files_[file];
  whole.done_bytes = whole.total_bytes.value_or(whole.done_bytes);
  whole.total_bytes = whole.done_bytes;
  write_line_if_due();
}

void Progress::finish(const std::string& message) {
  const std::scoped_lock lock(mutex_);
  write_line(message);
}

void Progress::write_line_if_due() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_line_) return;
  next_line_ = now + std::chrono::milliseconds(500);
  write_line("");
}

void Progress::write_line(const std::string& message) {
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
  bool total_is_known = true;
  for (const File& file : files_) {
    done_bytes += file.done_bytes;
    total_bytes += file.total_bytes.value_or(0);
    total_is_known = total_is_known && file.total_bytes.has_value();
  }
  Json line = {{"bytes", done_bytes}};
  if (total_is_known) line["total_bytes"] = total_bytes;
  if (!message.empty()) line["message"] = message;
  metrics_.append(line.dump());
}

}  // namespace dlflow::steps
