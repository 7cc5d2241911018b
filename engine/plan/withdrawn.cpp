#include "engine/plan/withdrawn.h"

#include <algorithm>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

fs::path file_of(const fs::path& run_directory) { return run_directory / "withdrawn"; }

std::string line_of(const JobName& job, int attempt) { return Json::array({attempt, job}).dump(); }

std::vector<std::string> lines_of(const fs::path& run_directory) {
  auto lines = split(read_file_if_exists(file_of(run_directory)).value_or(""), '\n');
  lines.pop_back();  // empty, or torn
  return lines;
}

}  // namespace

void withdraw(const fs::path& run_directory, std::span<const WithdrawnAttempt> attempts) {
  if (attempts.empty()) return;
  std::vector<std::string> there = lines_of(run_directory);
  std::sort(there.begin(), there.end());
  std::vector<std::string> lines;
  for (const WithdrawnAttempt& one : attempts) {
    std::string line = line_of(one.job, one.attempt);
    if (!std::binary_search(there.begin(), there.end(), line)) lines.push_back(std::move(line));
  }
  if (lines.empty()) return;
  AppendFile file(file_of(run_directory));
  file.append(join(lines, "\n"));
  file.sync();
  sync_directory(run_directory);
}

void want_again(const fs::path& run_directory, std::span<const WithdrawnAttempt> attempts) {
  std::vector<std::string> wanted;
  for (const WithdrawnAttempt& one : attempts) wanted.push_back(line_of(one.job, one.attempt));
  std::sort(wanted.begin(), wanted.end());
  std::vector<std::string> lines = lines_of(run_directory);
  const size_t removed = std::erase_if(lines, [&wanted](const std::string& line) {
    return std::binary_search(wanted.begin(), wanted.end(), line);
  });
  if (removed == 0) return;
  lines.emplace_back();
  write_file_atomic(file_of(run_directory), join(lines, "\n"), Durability::Synced);
}

bool has_withdrawn(const fs::path& run_directory) { return !lines_of(run_directory).empty(); }

bool is_withdrawn(const fs::path& run_directory, const JobName& job, int attempt) {
  const std::vector<std::string> lines = lines_of(run_directory);
  return std::find(lines.begin(), lines.end(), line_of(job, attempt)) != lines.end();
}

}  // namespace dlflow
