#include "base/error.h"
#include "engine/gridengine/cluster.h"
#include "engine/gridengine/output.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/printed_jobs.h"

using namespace dlflow;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  test::check_id(qsub_id(text));
  for (const auto& jobs : {parse_qstat(text), parse_qacct(text)}) {
    test::check_jobs(jobs, kMaxQstatTasks + 100'000);
  }
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

std::vector<std::string> fuzz_seeds() { return test::corpus(GRIDENGINE_CORPUS); }
