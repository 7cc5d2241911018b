#include "engine/batch/batch_job.h"

#include <array>
#include <map>
#include <set>
#include <string_view>

#include "base/text.h"
#include "base/units.h"

namespace dlflow {
namespace {

constexpr std::array<std::string_view, size_t(BatchState::Unknown) + 1> kWords = {
    "pending",
    "configuring",
    "running",
    "suspended",
    "completing",
    "requeued",
    "requeued and held",
    "completed",
    "failed",
    "cancelled",
    "walltime reached",
    "out of memory",
    "node failed",
    "preempted",
    "node did not boot",
    "deadline reached",
    "moved to another cluster",
    "unknown"};

}  // namespace

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

std::string_view words(BatchState state) { return kWords[size_t(state)]; }

bool is_over(BatchState state) {
  return state >= BatchState::Completed && state < BatchState::Unknown;
}

bool has_not_begun(BatchState state) {
  return state == BatchState::Pending || state == BatchState::Configuring ||
         state == BatchState::Requeued || state == BatchState::Held;
}

void BatchJobs::put(BatchJob job) {
  const auto [place, is_new] = places_.emplace(job.id, jobs_.size());
  if (is_new) {
    jobs_.push_back(std::move(job));
  } else {
    jobs_[place->second] = std::move(job);
  }
}

BatchJob* BatchJobs::find(std::string_view id) {
  const auto found = places_.find(std::string(id));
  return found == places_.end() ? nullptr : &jobs_[found->second];
}

std::string ending_in_words(const BatchJob& job) {
  if (job.state == BatchState::Completed) return "exit 0";
  if (job.state == BatchState::NodeFail && !job.node.empty()) return "node " + job.node + " failed";
  if (job.state == BatchState::Timeout && job.limit) {
    return "walltime of " + format_duration(*job.limit) + " reached";
  }
  if (job.state == BatchState::Cancelled && !job.cancelled_by.empty()) {
    const bool is_id = number_from<uint32_t>(job.cancelled_by).has_value();
    return (is_id ? "cancelled by user " : "cancelled by ") + job.cancelled_by;
  }
  if (job.state == BatchState::Failed) {
    if (job.log_refused) return "the node cannot write to the run's folder";
    if (job.signal != 0) return "killed by signal " + std::to_string(job.signal);
    if (job.exit) return "exit " + std::to_string(*job.exit);
  }
  return is_over(job.state) ? std::string(words(job.state)) : "";
}

std::string_view array_id(std::string_view id) { return id.substr(0, id.find('_')); }

std::optional<uint32_t> array_task(std::string_view id) {
  const size_t underscore = id.find('_');
  if (underscore == id.npos) return std::nullopt;
  return number_from<uint32_t>(id.substr(underscore + 1));
}

std::string format_array_range(std::span<const uint32_t> tasks) {
  std::string text;
  for (size_t first = 0; first < tasks.size();) {
    size_t last = first;
    while (last + 1 < tasks.size() && tasks[last + 1] == tasks[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(tasks[first]);
    if (last > first) text += (last == first + 1 ? "," : "-") + std::to_string(tasks[last]);
    first = last + 1;
  }
  return text;
}

std::vector<uint32_t> parse_array_range(std::string_view text, size_t at_most) {
  if (text.starts_with('[')) text.remove_prefix(1);
  text = text.substr(0, text.find_first_of("]%"));
  std::vector<uint32_t> tasks;
  for (const std::string& part : split(text, ',')) {
    const size_t colon = part.find(':');
    const std::string range = part.substr(0, colon);
    const uint32_t step =
        colon == part.npos
            ? 1
            : number_from<uint32_t>(std::string_view(part).substr(colon + 1)).value_or(0);
    const size_t dash = range.find('-');
    const auto first = number_from<uint32_t>(std::string_view(range).substr(0, dash));
    const auto last = dash == range.npos
                          ? first
                          : number_from<uint32_t>(std::string_view(range).substr(dash + 1));
    if (!first || !last || step == 0) continue;
    for (uint64_t task = *first; task <= *last && tasks.size() < at_most; task += step) {
      tasks.push_back(uint32_t(task));
    }
  }
  return tasks;
}

bool JobIdentity::is(const BatchJob& job) const {
  const bool is_name = job.name.size() >= name_begin.size() + name_end.size() &&
                       job.name.starts_with(name_begin) && job.name.ends_with(name_end);
  return job.id == id && is_name && (!job.submitted || *job.submitted >= since);
}

std::vector<std::string> ids_of_known(std::span<const JobIdentity> ours,
                                      std::span<const BatchJob> known) {
  std::multimap<std::string_view, const BatchJob*> by_id;
  for (const BatchJob& job : known) by_id.emplace(job.id, &job);
  std::vector<std::string> ids;
  for (const JobIdentity& one : ours) {
    const auto [first, last] = by_id.equal_range(one.id);
    for (auto job = first; job != last; ++job) {
      if (!one.is(*job->second)) continue;
      ids.push_back(one.id);
      break;
    }
  }
  return ids;
}

std::vector<BatchJob> jobs_with_ids(std::vector<BatchJob> jobs, std::span<const std::string> ids) {
  const std::set<std::string_view> wanted(ids.begin(), ids.end());
  std::erase_if(jobs, [&wanted](const BatchJob& job) {
    return !wanted.contains(job.id) && !wanted.contains(array_id(job.id));
  });
  return jobs;
}

std::vector<BatchJob> jobs_with_names(std::vector<BatchJob> queue,
                                      std::span<const std::string> names,
                                      const std::function<std::vector<BatchJob>()>& ended) {
  const std::set<std::string_view> wanted(names.begin(), names.end());
  std::set<std::string> missing(names.begin(), names.end());
  std::erase_if(queue, [&](const BatchJob& job) { return !wanted.contains(job.name); });
  for (const BatchJob& job : queue) missing.erase(job.name);
  if (missing.empty() || !ended) return queue;
  for (BatchJob& job : ended()) {
    if (missing.contains(job.name)) queue.push_back(std::move(job));
  }
  return queue;
}

std::string no_longer_ours(const JobIdentity& job) {
  return "job " + job.id + " has ended, or its number now belongs to another job";
}

}  // namespace dlflow
