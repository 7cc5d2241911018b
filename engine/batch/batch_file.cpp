#include "engine/batch/batch_file.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/parse_json.h"
#include "base/text.h"
#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

using Key = std::pair<uint32_t, uint32_t>;

constexpr uint32_t kLists = 0;  // in place of a call's number, for lists of parents

[[noreturn]] void throw_damaged(const fs::path& file, std::string_view line) {
  throw Error(Errc::Corrupt, file.string() + " is damaged: " + std::string(line.substr(0, 80)));
}

Json parse_line(const fs::path& file, std::string_view line) {
  Json json = parse_json(line);
  const bool sound = json.is_array() && json.size() == 5 && json[0].is_number_unsigned() &&
                     json[1].is_number_unsigned() && json[2].is_number_integer() &&
                     json[3].is_string();
  if (!sound) throw_damaged(file, line);
  return json;
}

std::string line_of(Key key, int attempt, const JobName& job, const Json& content) {
  return "[" + std::to_string(key.first) + "," + std::to_string(key.second) + "," +
         std::to_string(attempt) + "," + Json(job).dump() + "," + content.dump() + "]\n";
}

/// Whether another file has one of its calls.
bool overlaps_others(const fs::path& file) {
  size_t with_it = 0;
  BatchRange own;
  if (std::sscanf(file.filename().c_str(), "%u-%u", &own.first, &own.last) != 2) return false;
  for (const BatchRange& other : batch_ranges(file.parent_path().parent_path())) {
    with_it += other.first <= own.last && own.first <= other.last;
  }
  return with_it > 1;
}

/// A batch file whose lines are found by binary search.
class SortedLines {
 public:
  explicit SortedLines(const fs::path& file) : file_(file), stream_(file, std::ios::binary) {
    if (!stream_) throw Error(Errc::NotFound, "cannot open " + file.string());
    size_ = uint64_t(stream_.seekg(0, std::ios::end).tellg());
  }

  /// The lines with this key, in their order.
  std::vector<std::string> find(Key key) {
    std::vector<std::string> found;
    for (std::string line = first_from(key); !line.empty() && key_of(line) == key;) {
      found.push_back(std::move(line));
      line.clear();
      std::getline(stream_, line);
    }
    return found;
  }

 private:
  /// The first line whose key is not less than `key`; empty if there is none. Leaves the stream
  /// behind it.
  std::string first_from(Key key) {
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

void BatchLines::add(const BatchTask& task) {
  Json spec;
  if (task.spec.parents.size() > 1) {
    JobSpec without = task.spec;
    without.parents.clear();
    spec = to_json(without);
    spec["parents"] = list_of(task.spec);
  } else {
    spec = to_json(task.spec);
  }
  tasks_ += line_of({task.batch, task.task}, task.attempt, task.spec.job, spec);
}

uint32_t BatchLines::list_of(const JobSpec& spec) {
  if (spec.parents == last_) return last_number_;
  const Json json = to_json(spec).at("parents");
  const auto [list, is_new] = numbers_.try_emplace(json.dump(), uint32_t(numbers_.size()));
  if (is_new) lists_ += line_of({kLists, list->second}, 0, "", json);
  last_ = spec.parents;
  return last_number_ = list->second;
}

void write_batch_file(const fs::path& file, std::string_view lines) {
  const fs::path folder = file.parent_path();
  const bool made = create_once(file, lines);
  if (!made || overlaps_others(file)) {
    if (made) ::unlink(file.c_str());
    throw Error(Errc::Unavailable, "another dlflow process is submitting jobs of " +
                                       folder.parent_path().string() + " now");
  }
  sync_directory(folder);
  sync_directory(folder.parent_path());  // since `folder` may be new in it
}

std::vector<BatchTask> attempts_of_task(const fs::path& file, uint32_t batch, uint32_t task) {
  SortedLines lines(file);
  std::map<uint32_t, Json> parents;  // by the number of their list
  const auto parents_of = [&](uint32_t list) -> const Json& {
    const auto [known, is_new] = parents.try_emplace(list);
    if (!is_new) return known->second;
    const std::vector<std::string> found = lines.find({kLists, list});
    if (found.size() != 1) {
      throw Error(Errc::Corrupt,
                  file.string() + " is damaged: it has no list " + std::to_string(list));
    }
    return known->second = parse_line(file, found.front())[4];
  };
  std::vector<BatchTask> attempts;
  for (const std::string& line : lines.find({batch, task})) {
    Json json = parse_line(file, line);
    Json& spec = json[4];
    if (spec.is_object() && spec.contains("parents") && spec["parents"].is_number_unsigned())
      spec["parents"] = parents_of(spec["parents"].get<uint32_t>());
    attempts.push_back({batch, task, json[2].get<int>(), job_spec_from_json(spec)});
  }
  if (attempts.empty()) {
    throw Error(Errc::NotFound, file.string() + " has no task " + std::to_string(task) +
                                    " of batch " + std::to_string(batch));
  }
  return attempts;
}

std::vector<BatchEntry> read_batch_entries(const fs::path& file) {
  std::vector<BatchEntry> entries;
  for (const std::string& line : split(read_file(file), '\n')) {
    if (line.empty()) continue;
    const Json json = parse_line(file, line);
    if (json[0] == kLists) continue;
    entries.push_back({json[0].get<uint32_t>(), json[1].get<uint32_t>(), json[2].get<int>(),
                       json[3].get<JobName>()});
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
