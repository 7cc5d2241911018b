#include "engine/run/chain/login_jobs.h"

#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/fault.h"
#include "base/units.h"
#include "engine/backend/local.h"
#include "engine/decide/decide.h"
#include "engine/decide/standing.h"
#include "engine/plan/extension.h"
#include "engine/plan/layout.h"
#include "engine/plan/places.h"
#include "engine/run/again.h"
#include "engine/run/cancel_request.h"
#include "engine/run/handed_over.h"
#include "engine/run/interrupts.h"

namespace dlflow {
namespace {

using namespace std::chrono_literals;

std::vector<uint32_t> login_jobs_of(const Plan& plan) {
  std::vector<uint32_t> jobs;
  for (uint32_t job = 0; job < plan.jobs.size(); ++job) {
    if (is_on_login_node(plan, plan.jobs[job]) && !is_open(plan, job)) jobs.push_back(job);
  }
  return jobs;
}

/// The back end that a chain's services name, or this machine.
class LoginNode {
 public:
  LoginNode(const ChainServices& services, const Profile& profile)
      : own_(services.login_node == nullptr ? local_backend(local_machine(profile)) : nullptr),
        backend_(own_ ? *own_ : *services.login_node) {}

  Backend& backend() { return backend_; }

 private:
  std::unique_ptr<Backend> own_;
  Backend& backend_;
};

/// Jobs on the login node, but not those of a list that is not final.
std::set<uint32_t> jobs_to_start(const ChainRun& run) {
  std::set<uint32_t> jobs;
  for (const uint32_t job : login_jobs_of(run.plan())) {
    const bool waits = waits_for_list(run.plan(), run.jobs(), job);
    if (!waits || is_under_way(run.jobs()[job].state)) jobs.insert(job);
  }
  return jobs;
}

class LoginJobs {
 public:
  explicit LoginJobs(ChainRun& run)
      : run_(run),
        node_(run.services(), run.plan().profile),
        backend_(node_.backend()),
        mine_(jobs_to_start(run)),
        handed_over_{run.plan(), run.record(), backend_} {
    backend_.begin(run.plan().directory);
  }

  /// Takes over the jobs that an earlier dlflow handed over, or was about to.
  void recover() {
    for (const uint32_t job : mine_) {
      // Jobs that have not begun are started in their turn.
      if (is_under_way(jobs()[job].state)) handed_over_.recover(job);
    }
  }

  /// Returns whether it was stopped.
  bool run() {
    recover();
    work();
    return stops_ > 0;
  }

  size_t end() {
    recover();
    const size_t count = handed_over_.jobs.size();
    stop_once();
    work();
    return count;
  }

 private:
  static constexpr auto kTick = 200ms;

  const Jobs& jobs() const { return run_.jobs(); }

  void work() {
    for (const uint32_t job : mine_) {
      if (!handed_over_.jobs.contains(job)) changed_[job];
    }
    settle({.resumes = true});
    while (start_jobs() || !handed_over_.jobs.empty()) {
      run_.record().try_save();  // for `dlflow status` in another shell
      for (const Update& update : backend_.wait(kTick, interrupts_.descriptor())) take(update);
      settle({});
      for (int signals = interrupts_.take(); signals > 0; --signals) stop_once();
      if (stops_ == 0 && is_cancel_requested(run_.plan().directory)) stop_once();
    }
    run_.save();
  }

  void tell(const std::string& line) const {
    if (run_.services().tell) run_.services().tell(line);
  }

  /// Carries out decisions until nothing changes.
  void settle(Capabilities now) {
    now.starts = &mine_;
    for (; !changed_.empty(); now.resumes = false) {
      now.stopping = stops_ > 0;
      const Changes changed = std::exchange(changed_, {});
      for (const Decision& decision : decide(run_.plan(), jobs(), changed, now)) {
        carry_out(decision);
      }
    }
  }

  void carry_out(const Decision& decision) {
    using enum Decision::Kind;
    const uint32_t job = decision.job;
    switch (decision.kind) {
      case Start:
      case LookUp:  // reuse_listed() has looked
        waiting_.insert(job);
        return;
      case TryAgain:
        run_.record().decide(decision);
        not_before_[job] = run_.services().clock.now() + decision.delay;
        waiting_.insert(job);
        return;
      case Reuse:
      case Skip:
      case Block:
        run_.record().decide(decision);
        changed_[job];
        return;
      case GiveUp:
      case Withdraw:
        return;
    }
  }

  /// Returns whether some still wait for their turn.
  bool start_jobs() {
    if (stops_ > 0) return false;
    const Time now = run_.services().clock.now();
    for (const uint32_t job : std::set<uint32_t>(waiting_)) {
      const auto earliest = not_before_.find(job);
      if (earliest != not_before_.end() && earliest->second > now) continue;
      if (backend_.has_room(*run_.plan().jobs[job].resources)) {
        waiting_.erase(job);
        start(job);
      } else if (handed_over_.jobs.empty()) {
        throw_no_room(job);
      }
    }
    return !waiting_.empty();
  }

  /// It was checked where the run was created.
  [[noreturn]] void throw_no_room(uint32_t job) const {
    throw Error(
        Errc::InvalidInput,
        run_.name(job) +
            " asks for more than jobs may use on this login node; run `dlflow run --resume " +
            run_.plan().run + "` on a machine that has more");
  }

  void start(uint32_t job) {
    handed_over_.intend(job);
    run_.record().sync();
    crash_point("intent");
    run_.note_unrecorded_ends();
    tell(run_.name(job) + " runs here, on the login node");
    handed_over_.start(job);
    started_[job] = run_.services().clock.now();
  }

  void take(const Update& update) {
    if (!handed_over_.take(update)) return;
    const uint32_t job = update.job;
    const JobState state = jobs()[job].state;
    changed_[job] = update.event.reason;
    if (!is_final(state)) return;  // it saved, and continues in another pass
    tell(run_.name(job) + " " + std::string(name(state)) + " after " + time_of(job) +
         (update.event.reason.empty() ? "" : ": " + update.event.reason));
  }

  std::string time_of(uint32_t job) const {
    const auto started = started_.find(job);
    if (started == started_.end()) return "some time";
    return format_duration(std::chrono::duration_cast<std::chrono::seconds>(
        run_.services().clock.now() - started->second));
  }

  void stop_once() { handed_over_.stop(stops_++ == 0 ? Stop::AndSave : Stop::AtOnce); }

  ChainRun& run_;
  Interrupts interrupts_;
  LoginNode node_;
  Backend& backend_;
  const std::set<uint32_t> mine_;
  HandedOver handed_over_;
  Changes changed_;             // to be decided on
  std::set<uint32_t> waiting_;  // for their turn; parents before children
  std::map<uint32_t, Time> not_before_;
  std::map<uint32_t, Time> started_;
  int stops_ = 0;
};

bool has_login_jobs(const ChainRun& run) { return !login_jobs_of(run.plan()).empty(); }

[[noreturn]] void refuse(const Plan& plan, const PlannedJob& job, const std::string& problem) {
  const Step& step = plan.workflow.steps[job.step];
  throw_at(plan.workflow, step.location_of("resources"),
           "step '" + step.name + "' runs on the login node (class " +
               plan.profile.classes[*job.place].name + "), " + problem);
}

template <typename Condition>
std::vector<std::string> login_jobs_with(const ChainRun& run, const Condition& holds) {
  std::vector<std::string> names;
  for (const uint32_t job : login_jobs_of(run.plan())) {
    if (holds(run.jobs()[job].state)) names.push_back(run.name(job));
  }
  return names;
}

}  // namespace

void check_login_jobs(const Plan& plan, const ChainServices& services) {
  const std::vector<uint32_t> jobs = login_jobs_of(plan);
  if (jobs.empty()) return;
  LoginNode node(services, plan.profile);
  for (const uint32_t number : jobs) {
    const PlannedJob& job = plan.jobs[number];
    if (job.resources->ranks > 1) {
      refuse(plan, job,
             "which runs only steps with one rank, not " + std::to_string(job.resources->ranks) +
                 "; choose another class with `on:`");
    }
    if (!node.backend().has_room(*job.resources)) {
      refuse(plan, job,
             "but asks for more than jobs may use there; ask for fewer cores, GPUs or less memory, "
             "or see `cores:` and `memory:` of the profile");
    }
  }
}

void recover_login_jobs(ChainRun& run) {
  if (has_login_jobs(run)) LoginJobs(run).recover();
}

bool run_login_jobs(ChainRun& run) { return has_login_jobs(run) && LoginJobs(run).run(); }

size_t end_login_jobs(ChainRun& run) { return has_login_jobs(run) ? LoginJobs(run).end() : 0; }

std::vector<std::string> login_jobs_left(const ChainRun& run) {
  return login_jobs_with(run, [](JobState state) { return state == JobState::Planned; });
}

std::vector<std::string> login_jobs_failed(const ChainRun& run) {
  return login_jobs_with(run, [](JobState state) {
    return is_broken(state) && state != JobState::Blocked && state != JobState::Cancelled;
  });
}

std::vector<std::optional<uint32_t>> login_jobs_before(const Plan& plan,
                                                       const std::vector<JobState>& states) {
  std::vector<std::optional<uint32_t>> before(states.size());
  for (uint32_t job = 0; job < states.size(); ++job) {  // parents before children
    if (states[job] != JobState::Planned) continue;
    if (is_on_login_node(plan, plan.jobs[job])) before[job] = job;
    plan.graph.each_parent(job, [&](uint32_t parent) {
      if (before[parent]) before[job] = before[parent];
    });
  }
  return before;
}

}  // namespace dlflow
