#include "engine/run/chain/from_job.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/temporary_folder.h"
#include "engine/batch/batch_file.h"
#include "engine/plan/run_directory.h"
#include "engine/run/batch_systems.h"
#include "engine/run/chain/chain.h"
#include "engine/store/store.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// What the batch system told this job would count for the jobs that it submits.
void leave_allocation() {
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    const bool is_of_job = name.starts_with("SLURM") || name.starts_with("SBATCH_");
    if (is_of_job && name != "SLURM_CONF") names.emplace_back(name);
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

void submit(const fs::path& run_directory) {
  const Profile profile = run_profile(run_directory);
  if (!profile.submit_from_jobs) return;
  leave_allocation();
  // The store in the home directory is for login nodes: databases and network file systems do not
  // go well together. All that this one has comes from the run's folder.
  const TemporaryFolder home(fs::temp_directory_path() / "dlflow-home");
  Store store(home.path());
  const auto batch = make_batch_system(profile.scheduler);
  const SystemClock clock;
  const ChainResult result = submit_listed(run_directory, {store, *batch, clock});
  size_t jobs = 0;
  for (const SubmittedBatch& submitted : result.submitted) jobs += submitted.jobs;
  std::fprintf(stderr, "%zu jobs submitted, as listed\n", jobs);
}

}  // namespace

void submit_what_was_listed(const fs::path& batch_file, uint32_t batch, uint32_t task) {
  try {
    for (const BatchTask& attempt : attempts_of_task(batch_file, batch, task)) {
      if (!attempt.spec.lists.empty()) return submit(attempt.spec.run_directory);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: what the job has listed is not submitted: %s\n", error.what());
  }
}

}  // namespace dlflow
