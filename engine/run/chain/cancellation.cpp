#include "engine/run/chain/cancellation.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/fault.h"
#include "base/file.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/withdrawn.h"
#include "engine/run/again.h"
#include "engine/run/chain/lists.h"
#include "engine/run/chain/login_jobs.h"
#include "engine/run/chain/observation.h"
#include "engine/supervisor/claim.h"
#include "engine/supervisor/launch.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

class Cancellation {
 public:
  explicit Cancellation(ChainRun& run) : run_(run) {}

  /// Collects the waiting jobs, and asks the running ones to save and to end.
  void ask(const std::vector<std::string>& names, const JobsAtWork& at_work) {
    for (uint32_t job = 0; job < run_.jobs().size(); ++job) {
      if (!is_meant(run_.plan(), job, names)) continue;
      if (run_.jobs()[job].state == JobState::Submitting) {  // a submission that was killed before
        run_.forget_id(job);
        waiting_.push_back(job);
        continue;
      }
      // A job that leaves a list submits planned jobs.
      if (run_.jobs()[job].state == JobState::Planned && fans_out(run_.plan())) {
        planned_.push_back(job);
        continue;
      }
      const auto found = at_work.find(run_.name(job));
      if (found == at_work.end()) continue;
      const BatchState state = found->second.state;
      if (has_not_begun(state)) {
        waiting_.push_back(job);
      } else if (state == BatchState::Suspended && !run_.is_packed(job)) {
        asked_before_.push_back(job);  // it gets no signal
      } else {
        ask_to_save(job);
      }
    }
  }

  /// Takes waiting jobs, and those that were asked before, from the batch system. Their attempts
  /// are withdrawn first, so that they do not begin even if the batch system refuses.
  void take() {
    std::vector<WithdrawnAttempt> attempts;
    for (const uint32_t job : waiting_)
      attempts.push_back({run_.name(job), run_.jobs()[job].attempt});
    withdraw(run_.plan().directory, attempts);
    crash_point("withdrawn");
    ask_those_that_may_have_begun();
    const std::vector<JobIdentity> jobs = jobs_to_take();
    if (jobs.empty()) return;
    const JobAnswer answer = run_.batch().cancel(jobs);
    if (answer.kind != JobAnswer::Kind::Done) keep_what_is_left(jobs, answer.message);
  }

  /// Records the result. A job on record as cancelled may be submitted again at once.
  CancelResult record() {
    for (const std::vector<uint32_t>* jobs : {&waiting_, &planned_}) {
      for (const uint32_t job : *jobs) {
        run_.record().decide(job, JobState::Cancelled, "cancelled by `dlflow cancel`");
      }
    }
    run_.save();
    run_.services().store.settle_run_state(run_.plan().directory.string());
    return {.cancelled = waiting_.size() + planned_.size() + asked_before_.size(),
            .saving = saving_};
  }

  /// Throws Error{InvalidInput} if the batch system has refused to end a job.
  void check(const CancelResult& result) const {
    if (refused_ == 0) return;
    const std::string system(run_.batch().name());
    throw Error(Errc::InvalidInput,
                system + " refuses to cancel " + std::to_string(refused_) + " of " +
                    std::to_string(refused_ + result.cancelled + result.saving) + " jobs of " +
                    run_.plan().run + ": " + refusal_ +
                    "\n       Waiting jobs will end without running when " + system +
                    " starts them; `dlflow run --resume " + run_.plan().run +
                    "` lets them run after all.");
  }

 private:
  fs::path attempt_of(uint32_t job) const {
    return attempt_directory(job_directory(run_.plan(), job), run_.jobs()[job].attempt);
  }

  /// A shared task may have begun before the attempts were withdrawn: then they may be at work in
  /// it.
  void ask_those_that_may_have_begun() {
    std::vector<uint32_t> begun;
    for (const uint32_t job : waiting_) {
      const bool shares = run_.is_packed(job) && !run_.id(job).empty();
      if (shares && !is_all_that_waits(job)) begun.push_back(job);
    }
    if (begun.empty()) return;
    const std::set<std::string> pending = pending_ids(run_);
    std::erase_if(begun, [&](uint32_t job) { return pending.contains(run_.id(job)); });
    std::erase_if(waiting_, [&](uint32_t job) {
      return std::binary_search(begun.begin(), begun.end(), job);
    });
    for (const uint32_t job : begun) ask_to_save(job);
  }

  /// Leaves out tasks that jobs share that are to stay.
  std::vector<JobIdentity> jobs_to_take() {
    std::map<std::string, uint32_t> by_id;
    for (const uint32_t job : waiting_) {
      const bool is_alone = !run_.is_packed(job) || is_all_that_waits(job);
      if (!run_.id(job).empty() && is_alone) by_id.emplace(run_.id(job), job);
    }
    for (const uint32_t job : asked_before_) by_id.emplace(run_.id(job), job);
    std::vector<JobIdentity> jobs;
    for (const auto& [id, job] : by_id) jobs.push_back(run_.identity(job));
    return jobs;
  }

  /// Whether every job that the task could still run is to be cancelled.
  bool is_all_that_waits(uint32_t job) {
    const auto [known, is_new] = leaves_nobody_.try_emplace(run_.id(job));
    if (!is_new) return known->second;
    const std::vector<uint32_t> sharers = run_.sharers(job);
    return known->second = std::all_of(sharers.begin(), sharers.end(), [&](uint32_t one) {
             const JobState state = run_.jobs()[one].state;
             const bool stays =
                 !is_final(state) || (state == JobState::Blocked && !run_.has_own_end(one));
             return !stays || std::binary_search(waiting_.begin(), waiting_.end(), one);
           });
  }

  /// Asks a job to save whose task is at work, on this job or on others. A job that has not had its
  /// turn ends when its turn comes.
  void ask_sharer_to_save(uint32_t job) {
    const fs::path request = AttemptFiles{attempt_of(job)}.cancel_request();
    const bool is_new = !fs::exists(request);
    make_directories(attempt_of(job));
    write_file_atomic(request, "");
    if (is_at_work(job)) {  // its program is killed at the second request
      const JobAnswer answer = run_.batch().ask_to_end(run_.identity(job));
      if (answer.kind == JobAnswer::Kind::Refused) {
        if (is_new) fs::remove(request);
        return refuse(1, answer.message);
      }
    }
    ++saving_;
  }

  /// Whether the signal would reach this job. Each pass claims its attempt before it looks for a
  /// request, and records at its end whether another one follows.
  bool is_at_work(uint32_t job) const {
    const auto claim = newest_claim(attempt_of(job));
    int ended = 0;
    bool is_over = false;
    for (const JobEvent& event :
         attempt_events(job_directory(run_.plan(), job), "", run_.jobs()[job].attempt)) {
      ended += event.state == JobState::Queued;
      is_over = event.state && is_final(*event.state);
    }
    return claim && claim->pass > ended && !is_over;
  }

  /// Does nothing if it was asked before: a second request must not wait for checkpoints.
  void ask_to_save(uint32_t job) {
    if (run_.is_packed(job)) return ask_sharer_to_save(job);
    const fs::path attempt = attempt_of(job);
    const fs::path request = AttemptFiles{attempt}.cancel_request();
    if (fs::exists(request)) {
      asked_before_.push_back(job);
      return;
    }
    const JobAnswer answer = run_.batch().ask_to_end(run_.identity(job));
    if (answer.kind == JobAnswer::Kind::Refused) {
      refuse(1, answer.message);
      return;
    }
    make_directories(attempt);  // it may not have begun yet
    write_file_atomic(request, "");
    ++saving_;
  }

  void keep_what_is_left(const std::vector<JobIdentity>& jobs, const std::string& refusal) {
    std::set<std::string> left;
    for (const JobIdentity& job : jobs) left.insert(job.id);
    for (const BatchJob& job : run_.batch().queue()) {
      if (is_over(job.state) || job.state == BatchState::Completing) left.erase(job.id);
    }
    const auto is_left = [&](uint32_t job) { return left.contains(run_.id(job)); };
    refuse(std::erase_if(waiting_, is_left) + std::erase_if(asked_before_, is_left), refusal);
  }

  void refuse(size_t jobs, const std::string& refusal) {
    refused_ += jobs;
    if (jobs > 0) refusal_ = refusal;
  }

  ChainRun& run_;
  std::vector<uint32_t> waiting_;              // ascending
  std::map<std::string, bool> leaves_nobody_;  // by id of a task; see is_all_that_waits()
  std::vector<uint32_t> planned_;              // not submitted yet
  std::vector<uint32_t> asked_before_;
  size_t saving_ = 0;
  size_t refused_ = 0;
  std::string refusal_;
};

}  // namespace

CancelResult cancel_jobs(ChainRun& run, const std::vector<std::string>& names) {
  check_names_exist(run.plan(), names);
  const size_t here = end_login_jobs(run);
  adopt_doubtful(run);  // jobs about which the batch system's answer was lost
  Cancellation cancellation(run);
  cancellation.ask(names, look_at_open_jobs(run, Doubt::Leave));
  cancellation.take();
  crash_point("cancel");
  CancelResult result = cancellation.record();
  result.cancelled += here;
  cancellation.check(result);
  return result;
}

}  // namespace dlflow
