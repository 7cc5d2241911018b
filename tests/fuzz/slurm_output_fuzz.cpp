#include "base/error.h"
#include "engine/slurm/output.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/printed_jobs.h"

using namespace dlflow;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  test::check_id(submitted_id(text));
  for (const auto& jobs : {parse_squeue(text), parse_sacct(text)}) {
    test::check_jobs(jobs, kMaxExpandedTasks + 100'000);
    for (const BatchJob& job : jobs) DLFLOW_CHECK(job.id.find('[') == std::string::npos);
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() { return test::corpus(SLURM_CORPUS); }
