#include "engine/report/progress.h"

#include <algorithm>
#include <fstream>

#include "base/not_finite.h"
#include "base/parse_json.h"
#include "engine/plan/run_directory.h"

namespace dlflow {

std::optional<Json> last_metrics(const std::filesystem::path& file) {
  constexpr std::streamoff kTail = 8192;  // several lines: one is a few hundred bytes
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (!stream) return std::nullopt;
  const std::streamoff size = stream.tellg();
  stream.seekg(std::max<std::streamoff>(0, size - kTail));
  std::string tail(size_t(std::min(size, kTail)), '\0');
  stream.read(tail.data(), std::streamsize(tail.size()));
  const size_t end = tail.rfind('\n');  // what follows is still being written
  if (end == std::string::npos || end == 0) return std::nullopt;
  const size_t before = tail.rfind('\n', end - 1);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  const std::string_view last = std::string_view(tail).substr(begin, end - begin);
  Json line = parse_json(quote_not_finite(last), kForeignJson);
  if (!line.is_object()) return std::nullopt;
  return line;
}

ProgressByJob read_progress(const RunStatus& status) {
  ProgressByJob progress;
  for (const JobRow& job : status.jobs) {
    if (job.state != JobState::Running) continue;
    const auto file = attempt_directory(job.directory, job.attempt) / "metrics.jsonl";
    if (auto metrics = last_metrics(file)) progress[job.job] = std::move(*metrics);
  }
  return progress;
}

}  // namespace dlflow
