#include "engine/slurm/batch_file.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

using Key = std::pair<uint32_t, uint32_t>;

[[noreturn]] void throw_damaged(const fs::path& file, std::string_view line) {
  throw Error(Errc::Corrupt, file.string() + " is damaged: " + std::string(line.substr(0, 80)));
}

Json parse_line(const fs::path& file, std::string_view line) {
  Json json = Json::parse(line, nullptr, false);
  const bool sound = json.is_array() && json.size() == 5 && json[0].is_number_unsigned() &&
                     json[1].is_number_unsigned() && json[2].is_number_integer() &&
                     json[3].is_string();
  if (!sound) throw_damaged(file, line);
  return json;
}

/// A batch file whose lines are looked up by halving.
class SortedLines {
 public:
  explicit SortedLines(const fs::path& file) : file_(file), stream_(file, std::ios::binary) {
    if (!stream_) throw Error(Errc::NotFound, "cannot open " + file.string());
    size_ = uint64_t(stream_.seekg(0, std::ios::end).tellg());
  }

  /// The first line whose key is not less than `key`; empty if there is none.
  std::string find(Key key) {
    uint64_t low = 0;
    uint64_t high = size_;
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      const std::string line = line_from(middle);
      if (!line.empty() && key_of(line) < key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return line_from(low);
  }

 private:
  /// The first line that begins at `offset` or behind it; empty if there is none.
  std::string line_from(uint64_t offset) {
    std::string line;
    stream_.clear();
    stream_.seekg(std::streamoff(offset == 0 ? 0 : offset - 1));
    if (offset > 0) std::getline(stream_, line);
    if (!std::getline(stream_, line)) return "";
    return line;
  }

  Key key_of(const std::string& line) const {
    Key key;
    if (std::sscanf(line.c_str(), "[%u,%u,", &key.first, &key.second) != 2) {
      throw_damaged(file_, line);
    }
    return key;
  }

  const fs::path& file_;
  std::ifstream stream_;
  uint64_t size_ = 0;
};

}  // namespace

fs::path batch_file(const fs::path& run_directory, BatchRange batches) {
  return run_directory / "batches" /
         (std::to_string(batches.first) + "-" + std::to_string(batches.last) + ".jsonl");
}

std::string batch_line(const BatchTask& task) {
  return "[" + std::to_string(task.batch) + "," + std::to_string(task.task) + "," +
         std::to_string(task.attempt) + "," + Json(task.spec.job).dump() + "," +
         to_json(task.spec).dump() + "]\n";
}

void write_batch_file(const fs::path& file, std::string_view lines) {
  const fs::path folder = file.parent_path();
  make_directories(folder);
  write_file_atomic(file, lines, Durability::Synced);
  sync_directory(folder.parent_path());  // which `folder` may be new in
}

BatchTask read_batch_task(const fs::path& file, uint32_t batch, uint32_t task) {
  const std::string line = SortedLines(file).find({batch, task});
  const Json json = line.empty() ? Json() : parse_line(file, line);
  if (line.empty() || json[0] != batch || json[1] != task) {
    throw Error(Errc::NotFound, file.string() + " has no task " + std::to_string(task) +
                                    " of batch " + std::to_string(batch));
  }
  return {batch, task, json[2].get<int>(), job_spec_from_json(json[4])};
}

std::vector<BatchEntry> read_batch_entries(const fs::path& file) {
  std::vector<BatchEntry> entries;
  for (const std::string& line : split(read_file(file), '\n')) {
    if (line.empty()) continue;
    const Json json = parse_line(file, line);
    entries.push_back({json[0].get<uint32_t>(), json[1].get<uint32_t>(), json[2].get<int>(),
                       json[3].get<std::string>()});
  }
  return entries;
}

std::vector<BatchRange> batch_ranges(const fs::path& run_directory) {
  std::vector<BatchRange> ranges;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(run_directory / "batches", none)) {
    BatchRange range;
    const std::string name = entry.path().filename().string();
    const bool has_range = std::sscanf(name.c_str(), "%u-%u", &range.first, &range.last) == 2;
    if (has_range && batch_file(run_directory, range).filename() == name) ranges.push_back(range);
  }
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

}  // namespace dlflow
