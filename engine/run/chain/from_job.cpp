#include "engine/run/chain/from_job.h"

#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/temporary_folder.h"
#include "engine/batch/batch_file.h"
#include "engine/plan/notifications.h"
#include "engine/plan/run_directory.h"
#include "engine/run/batch_systems.h"
#include "engine/run/chain/chain.h"
#include "engine/run/notify/end_on_record.h"
#include "engine/run/notify/notify.h"
#include "engine/store/store.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

void submit(const fs::path& run_directory) {
  const Profile profile = run_profile(run_directory);
  if (!profile.submit_from_jobs) return;
  // The store in the home directory is for login nodes: databases and network file systems do not
  // go well together. This one is built from the run's folder alone.
  const TemporaryFolder home(fs::temp_directory_path() / "dlflow-home");
  Store store(home.path());
  const auto batch = make_batch_system(profile.scheduler);
  const SystemClock clock;
  const ChainResult result = submit_listed(run_directory, {store, *batch, clock});
  size_t jobs = 0;
  for (const SubmittedBatch& submitted : result.submitted) jobs += submitted.jobs;
  std::fprintf(stderr, "%zu jobs submitted, as listed\n", jobs);
}

/// The end of a job's newest attempt; nothing if it continues, or did not begin.
std::optional<JobEvent> end_of(const JobSpec& spec) {
  const std::vector<int> numbers = attempts(spec.job_directory);
  if (numbers.empty()) return std::nullopt;
  const auto last = last_state(spec.job_directory, spec.job, numbers.back());
  return last && is_final(*last->state) ? last : std::nullopt;
}

void tell_if_new(const fs::path& run_directory, const Notifications& notify,
                 const std::string& address, const std::optional<News>& news) {
  if (!news) return;
  const auto record = claim_news(run_directory, notify, *news);
  if (!record) return;
  for (const std::string& warning : tell(*record, address)) {
    std::fprintf(stderr, "%s\n", warning.c_str());
  }
}

/// Whether one of the next tasks of the array, which mostly begin next, is at work: then the run
/// continues. In a run of thousands of jobs the plan is far more to read than these records.
bool next_tasks_work(const fs::path& batch_file, const BatchTask& ended) {
  constexpr uint32_t kLookedAt = 4;
  for (uint32_t next = 1; next <= kLookedAt; ++next) {
    try {
      for (const BatchTask& task : attempts_of_task(batch_file, ended.batch, ended.task + next)) {
        if (is_at_work(task.spec.run_directory, task.spec.job)) return true;
      }
    } catch (const Error& error) {
      if (error.code() != Errc::NotFound) throw;
      return false;  // the array ends here
    }
  }
  return false;
}

/// \param attempts  of one task of `batch_file`, at least one.
void tell_what_ended(const fs::path& batch_file, const std::vector<BatchTask>& attempts,
                     const Notifications& notify) {
  // Read first, since the process that finds the run succeeded removes the secrets.
  const fs::path& run_directory = attempts.front().spec.run_directory;
  const std::string address = webhook_address(run_directory, notify);
  bool any_ended = false;
  for (const BatchTask& attempt : attempts) {
    const JobSpec& spec = attempt.spec;
    const auto end = end_of(spec);
    if (!end) continue;
    any_ended = true;
    tell_if_new(run_directory, notify, address,
                news_of(notify, spec.run, *end, spec.allow_failure));
  }
  if (!any_ended || !notify.on.contains(Notifications::Event::End)) return;
  if (next_tasks_work(batch_file, attempts.front())) return;
  tell_if_new(run_directory, notify, address, end_on_record(load_run(run_directory)));
}

}  // namespace

void tell_what_ended(const fs::path& batch_file, uint32_t batch, uint32_t task) {
  try {
    const fs::path run_directory = batch_file.parent_path().parent_path();  // RUN/batches/…
    const auto notify = read_notifications(run_directory);
    if (!notify) return;
    tell_what_ended(batch_file, attempts_of_task(batch_file, batch, task), *notify);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "warning: the message about ended jobs was not sent: %s\n", error.what());
  }
}

void submit_what_was_listed(const fs::path& batch_file, uint32_t batch, uint32_t task) {
  try {
    for (const BatchTask& attempt : attempts_of_task(batch_file, batch, task)) {
      if (!attempt.spec.lists.empty()) return submit(attempt.spec.run_directory);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: the listed jobs were not submitted: %s\n", error.what());
  }
}

}  // namespace dlflow
