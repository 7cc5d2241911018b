#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "engine/gridengine/cluster.h"
#include "engine/gridengine/output.h"
#include "tests/fuzz/fuzz.h"

using namespace dlflow;

namespace {

void check_jobs(const std::vector<BatchJob>& jobs) {
  DLFLOW_CHECK(jobs.size() <= kMaxQstatTasks + 100'000);
  std::set<std::string_view> ids;
  for (const BatchJob& job : jobs) {
    DLFLOW_CHECK(ids.insert(job.id).second);
    DLFLOW_CHECK(!array_id(job.id).empty());
    DLFLOW_CHECK(!job.elapsed || job.elapsed->count() >= 0);
    DLFLOW_CHECK(is_over(job.state) || ending_in_words(job).empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto id = qsub_id(text)) {
    DLFLOW_CHECK(!id->empty() && id->find_first_not_of("0123456789") == std::string::npos);
  }
  check_jobs(parse_qstat(text));
  check_jobs(parse_qacct(text));
  ClusterLimits limits;
  add_configuration(limits, text);
  add_queues(limits, text);
  add_walltimes(limits, text);
  for (const PartitionInfo& queue : limits.partitions) {
    DLFLOW_CHECK(queue.node.cores >= 0);
    DLFLOW_CHECK(!queue.max_walltime || queue.max_walltime->count() >= 0);
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(GRIDENGINE_CORPUS)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> seeds;
  for (const auto& file : files) seeds.push_back(read_file(file));
  return seeds;
}
