#include "steps/stage/progress.h"

#include "base/json.h"

namespace dlflow::steps {

Progress::Progress(const std::filesystem::path& metrics, size_t num_sources)
    : metrics_(metrics), sources_(num_sources) {}

void Progress::set_total(size_t source, uint64_t bytes) { sources_[source].total_bytes = bytes; }

void Progress::set_done(size_t source, uint64_t bytes) {
  sources_[source].done_bytes = bytes;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_line_) return;
  next_line_ = now + std::chrono::milliseconds(500);
  write_line("");
}

void Progress::complete(size_t source) {
  const uint64_t bytes = sources_[source].total_bytes.value_or(sources_[source].done_bytes);
  set_total(source, bytes);
  set_done(source, bytes);
}

void Progress::finish(const std::string& message) { write_line(message); }

void Progress::write_line(const std::string& message) {
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
  bool total_is_known = true;
  for (const Source& source : sources_) {
    done_bytes += source.done_bytes;
    total_bytes += source.total_bytes.value_or(0);
    total_is_known = total_is_known && source.total_bytes.has_value();
  }
  Json line = {{"bytes", done_bytes}};
  if (total_is_known) line["total_bytes"] = total_bytes;
  if (!message.empty()) line["message"] = message;
  metrics_.append(line.dump());
}

}  // namespace dlflow::steps
