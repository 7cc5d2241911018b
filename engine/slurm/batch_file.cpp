#include "engine/slurm/batch_file.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

Json parse_line(const fs::path& file, std::string_view line) {
  Json json = Json::parse(line, nullptr, false);
  const bool sound = json.is_array() && json.size() == 4 && json[0].is_number_unsigned() &&
                     json[1].is_number_integer() && json[2].is_string();
  if (!sound) {
    throw Error(Errc::Corrupt, file.string() + " is damaged: " + std::string(line.substr(0, 80)));
  }
  return json;
}

}  // namespace

fs::path batch_file(const fs::path& run_directory, const std::string& name) {
  return run_directory / "batches" / (name + ".jsonl");
}

void write_batch_file(const fs::path& file, std::span<const BatchTask> tasks) {
  std::string text;
  for (const BatchTask& task : tasks) {
    text += "[" + std::to_string(task.task) + "," + std::to_string(task.attempt) + "," +
            Json(task.spec.job).dump() + "," + to_json(task.spec).dump() + "]\n";
  }
  make_directories(file.parent_path());
  write_file_atomic(file, text, Durability::Synced);
}

BatchTask read_batch_task(const fs::path& file, uint32_t task) {
  const std::string text = read_file(file);
  const std::string prefix = "[" + std::to_string(task) + ",";
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    if (!line.starts_with(prefix)) continue;
    const Json json = parse_line(file, line);
    return {task, json[1].get<int>(), job_spec_from_json(json[3])};
  }
  throw Error(Errc::NotFound, file.string() + " has no task " + std::to_string(task));
}

std::vector<BatchEntry> read_batch_entries(const fs::path& file) {
  std::vector<BatchEntry> entries;
  for (const std::string& line : split(read_file(file), '\n')) {
    if (line.empty()) continue;
    const Json json = parse_line(file, line);
    entries.push_back({json[0].get<uint32_t>(), json[1].get<int>(), json[2].get<std::string>()});
  }
  return entries;
}

std::vector<std::string> batch_names(const fs::path& run_directory) {
  std::vector<std::pair<int, std::string>> names;  // "RUN.7.train.5c1e": the number is its place
  const std::string prefix = run_directory.filename().string() + ".";
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(run_directory / "batches", none)) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() != ".jsonl" || !name.starts_with(prefix)) continue;
    names.emplace_back(std::atoi(name.c_str() + prefix.size()), name);
  }
  std::sort(names.begin(), names.end());
  std::vector<std::string> sorted;
  for (auto& [number, name] : names) sorted.push_back(std::move(name));
  return sorted;
}

}  // namespace dlflow
