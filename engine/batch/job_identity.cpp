#include "engine/batch/job_identity.h"

#include <map>
#include <string_view>

namespace dlflow {

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

std::string no_longer_ours(const JobIdentity& job) {
  return "job " + job.id + " has ended, or its number is another job's by now";
}

}  // namespace dlflow
