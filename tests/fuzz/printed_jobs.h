#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/batch/batch_job.h"

namespace dlflow::test {

/// Checks invariants of jobs read from any text.
inline void check_jobs(const std::vector<BatchJob>& jobs, size_t most) {
  DLFLOW_CHECK(jobs.size() <= most);
  std::set<std::string_view> ids;
  for (const BatchJob& job : jobs) {
    DLFLOW_CHECK(ids.insert(job.id).second);
    DLFLOW_CHECK(!array_id(job.id).empty());
    DLFLOW_CHECK(!job.elapsed || job.elapsed->count() >= 0);
    DLFLOW_CHECK(is_over(job.state) || ending_in_words(job).empty());
  }
}

/// Checks the id read from a submission's output.
inline void check_id(const std::optional<std::string>& id) {
  DLFLOW_CHECK(!id || (!id->empty() && id->find_first_not_of("0123456789") == std::string::npos));
}

}  // namespace dlflow::test
