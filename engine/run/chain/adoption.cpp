#include "engine/run/chain/adoption.h"

#include <map>
#include <set>
#include <utility>

#include "engine/batch/batch_file.h"

namespace dlflow {
namespace {

/// The latest batches with jobs that are Submitting, by the batch's name.
std::multimap<std::string, BatchEntry> doubtful_entries(const ChainRun& run) {
  std::set<std::string> doubtful;
  for (uint32_t job = 0; job < run.jobs().size(); ++job) {
    if (run.jobs()[job].state == JobState::Submitting) doubtful.insert(run.name(job));
  }
  std::multimap<std::string, BatchEntry> entries;
  const std::filesystem::path& directory = run.plan().directory;
  const std::vector<BatchRange> ranges = batch_ranges(directory);
  for (auto range = ranges.rbegin(); range != ranges.rend() && !doubtful.empty(); ++range) {
    for (BatchEntry& entry : read_batch_entries(batch_file(directory, *range))) {
      if (doubtful.erase(entry.job) == 0) continue;
      const uint32_t step = run.plan().jobs[run.number_of(entry.job)].step;
      entries.emplace(run.batch_name(entry.batch, step), std::move(entry));
    }
  }
  return entries;
}

void adopt(ChainRun& run, const BatchEntry& entry, const std::string& id) {
  const uint32_t job = run.number_of(entry.job);
  const bool is_task = !run.plan().jobs[job].label().empty();
  run.set_id(job, is_task ? id + "_" + std::to_string(entry.task) : id);
  run.record().decide(job, JobState::Queued, "", run.id(job));
}

}  // namespace

std::vector<std::string> adopt_doubtful(ChainRun& run) {
  const std::multimap<std::string, BatchEntry> entries = doubtful_entries(run);
  if (entries.empty()) return {};
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries) {
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  std::map<std::string, std::string> ids;  // by the batch's name
  for (const BatchJob& job : run.batch().find_by_name(names, run.plan().created)) {
    ids[job.name] = array_id(job.id);
  }
  std::vector<std::string> adopted;
  for (const auto& [name, entry] : entries) {
    const auto id = ids.find(name);
    if (id == ids.end()) continue;
    adopt(run, entry, id->second);
    adopted.push_back(entry.job);
  }
  return adopted;
}

}  // namespace dlflow
