#include "engine/supervisor/saved_state.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/file.h"
#include "base/handle.h"
#include "base/parse_json.h"
#include "base/sha256.h"
#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Files below `folder` in the order of their relative names.
std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

constexpr uint64_t kBlockBytes = uint64_t{1} << 20;
constexpr uint64_t kReadBytes = uint64_t{256} << 20;

/// A hash of the size, of each `stride`-th block, and of the last one, where archives have their
/// index.
std::string digest_of(const fs::path& path, uint64_t stride) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0) return "";
  const auto size = uint64_t(info.st_size);
  const uint64_t blocks = (size + kBlockBytes - 1) / kBlockBytes;
  Sha256 hash;
  hash.update(std::to_string(size) + " ");
  std::string block(std::min(size, kBlockBytes), '\0');
  for (uint64_t i = 0; i < blocks; ++i) {
    if (i % stride != 0 && i + 1 != blocks) continue;
    const ssize_t got = ::pread(file.get(), block.data(), block.size(), off_t(i * kBlockBytes));
    if (got > 0) hash.update(std::string_view(block.data(), size_t(got)));
  }
  return hash.hex();
}

}  // namespace

std::optional<fs::path> match_of(const fs::path& file, const std::string& pattern) {
  for (fs::path name = file; !name.empty(); name = name.parent_path()) {
    if (::fnmatch(pattern.c_str(), name.c_str(), FNM_PATHNAME) == 0) return name;
  }
  return std::nullopt;
}

std::string checkpoint_signature(const JobSpec& spec) {
  const fs::path folder = checkpoints_directory(spec);
  if (!fs::is_directory(folder)) return "";
  const std::vector<fs::path> files = files_below(folder);
  if (files.empty()) return "";
  Sha256 hash;
  for (const fs::path& file : files) {
    struct stat info {};
    if (::stat(file.c_str(), &info) != 0) continue;
    hash.update(file.string() + " " + std::to_string(info.st_size) + " " +
                std::to_string(info.st_mtim.tv_sec) + "." + std::to_string(info.st_mtim.tv_nsec));
  }
  return hash.hex();
}

SavedFiles saved_files(const JobSpec& spec, const std::string& pattern) {
  SavedFiles found;
  const fs::path folder = checkpoints_directory(spec);
  if (pattern.empty() || !fs::is_directory(folder)) return found;
  for (const fs::path& file : files_below(folder)) {
    const fs::path name = file.lexically_relative(folder);
    const std::optional<fs::path> match = match_of(name, pattern);
    struct stat info {};
    if (!match || ::stat(file.c_str(), &info) != 0 || info.st_size == 0) continue;
    const int64_t changed = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
    found[name] = {*match, changed, uint64_t(info.st_size), info.st_ino};
  }
  return found;
}

std::optional<std::string> newer_file(const SavedFiles& before, const SavedFiles& now) {
  const SavedFile* newest = nullptr;
  for (const auto& [name, file] : now) {
    const auto was = before.find(name);
    if (was != before.end() && was->second == file) continue;
    if (newest == nullptr || file.changed >= newest->changed) newest = &file;
  }
  return newest == nullptr ? std::nullopt : std::optional(newest->match);
}

std::string saved_content(const JobSpec& spec, const std::string& pattern) {
  const fs::path folder = checkpoints_directory(spec);
  if (!fs::is_directory(folder)) return "";
  std::vector<fs::path> files = files_below(folder);
  std::erase_if(files, [&](const fs::path& file) {
    return !pattern.empty() && !match_of(file.lexically_relative(folder), pattern);
  });
  uint64_t total = 0;
  std::error_code gone;
  for (const fs::path& file : files) {
    const auto size = fs::file_size(file, gone);
    if (!gone) total += size;
  }
  std::set<std::string> contents;
  for (const fs::path& file : files) contents.insert(digest_of(file, total / kReadBytes + 1));
  if (contents.empty()) return "";
  Sha256 hash;
  for (const std::string& content : contents) hash.update(content);
  return hash.hex();
}

std::string reported_step(const AttemptFiles& files, uint64_t from) {
  const std::string text = read_file_if_exists(files.metrics()).value_or("");
  if (from >= text.size()) return "";
  std::string last;
  for (const std::string& line : split(std::string_view(text).substr(from), '\n')) {
    if (line.find("\"step\"") == std::string::npos) continue;
    const Json report = parse_json(line, kForeignJson);
    if (!report.is_object() || !report.contains("step")) continue;
    last = report.at("step").dump() + " " + report.value("epoch", Json()).dump();
  }
  return last;
}

}  // namespace dlflow
