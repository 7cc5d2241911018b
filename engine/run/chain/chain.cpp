#include "engine/run/chain/chain.h"

#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "engine/batch/batch_system.h"
#include "engine/batch/limits.h"
#include "engine/decide/standing.h"
#include "engine/plan/extension.h"
#include "engine/plan/places.h"
#include "engine/plan/plan.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/withdrawn.h"
#include "engine/run/cancel_request.h"
#include "engine/run/chain/cancellation.h"
#include "engine/run/chain/lists.h"
#include "engine/run/chain/login_jobs.h"
#include "engine/run/chain/observation.h"
#include "engine/run/chain/round.h"
#include "engine/run/chain/submission.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Gives `plan` the limits of the cluster and each job its class, and checks that all jobs may run
/// there. Throws Error{InvalidInput} naming those that may not. Returns the checked submissions.
BatchPlan fit_to_cluster(Plan& plan, const ChainServices& services, const ClusterLimits& cluster) {
  const Profile limited = with_cluster_limits(plan.profile, cluster);
  plan.profile.classes = limited.classes;
  place_jobs(plan);  // with the cluster's limits of each class
  BatchPlan planned = check_limits(plan, services.batch, cluster);
  check_login_jobs(plan, services);
  plan.profile = limited;
  place_jobs(plan);
  return planned;
}

/// Why this batch system cannot be asked about a run on the cluster `here`: its jobs are elsewhere.
/// Empty if they are here, or if the name of this cluster is unknown.
std::string elsewhere(const fs::path& run_directory, const std::string& here) {
  const auto there = cluster_of(run_directory);
  if (!there || here.empty() || *there == here) return "";
  return run_name(run_directory) + " is on the cluster '" + *there + "', but this is '" + here +
         "'";
}

void require_here(const fs::path& run_directory, BatchSystem& batch) {
  const std::string problem = elsewhere(run_directory, batch.cluster_name());
  if (problem.empty()) return;
  const std::string there = cluster_of(run_directory).value();
  throw Error(Errc::InvalidInput,
              problem +
                  "; repeat this command there. If that cluster is gone for good, `dlflow rm " +
                  run_name(run_directory) + " --gone " + shell_quote(there) + "` removes the run");
}

/// Empty if it does not answer now: then it will not answer other questions either.
std::string name_of_cluster(BatchSystem& batch) {
  try {
    return batch.cluster_name();
  } catch (const Error& error) {
    if (!error.retryable()) throw;
    return "";
  }
}

ChainAnswer ask_or_say_why_not(BatchSystem& batch, const ChainQuestion& question) {
  try {
    return ask(batch, question, Doubt::Leave);
  } catch (const Error& error) {
    if (!error.retryable()) throw;
    ChainAnswer answer;
    answer.problem = error.what();
    return answer;
  }
}

/// The places of the submissions that `planned` waits for, each once.
std::vector<uint32_t> parents_of(const PlannedBatch& planned) {
  std::set<uint32_t> places;
  for (const PlannedDependency& dependency : planned.waits_for) places.insert(dependency.batch);
  return {places.begin(), places.end()};
}

/// For a new run, once its jobs on the login node have succeeded.
std::vector<Standing> standings_of(const Plan& plan) {
  std::vector<JobProgress> known(plan.jobs.size());
  for (uint32_t job = 0; job < known.size(); ++job) {
    const PlannedJob& planned = plan.jobs[job];
    const bool is_done = planned.action == Action::Reuse || is_on_login_node(plan, planned);
    if (is_done && !is_open(plan, job)) known[job].state = JobState::Cached;
  }
  return standings(plan, Jobs(plan, known), std::vector<std::string>(known.size()),
                   [](uint32_t) { return false; });
}

/// Adds the result of a further round of the same call.
void add(ChainResult& result, ChainResult&& more) {
  const auto append = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  append(result.submitted, more.submitted);
  append(result.adopted, more.adopted);
  append(result.repointed, more.repointed);
  append(result.too_early, more.too_early);
  result.held_back = more.held_back;
  result.excluded_nodes = std::move(more.excluded_nodes);
  result.later_here = std::move(more.later_here);
  result.failed_here = std::move(more.failed_here);
  result.interrupted = more.interrupted;
}

ChainResult submit_all(const fs::path& run_directory, const PlanAgain& again,
                       const ChainServices& services, BatchPlan planned = {}) {
  std::optional<ChainRun> run(std::in_place, run_directory, services);
  FoundLists lists = lay_out_lists(run, again.none);
  if (lists.any) planned = {};  // there were other jobs
  ChainResult result = submit_missing_jobs(*run, again, lists, std::move(planned));
  // A reused result, or one of the login node, may also list jobs to submit.
  while (!result.interrupted) {
    lists = lay_out_lists(run, again.none);
    if (!lists.any) break;
    add(result, submit_missing_jobs(*run, {.none = again.none}, lists, {}));
  }
  return result;
}

std::vector<JobIdentity> jobs_of(const std::string& run, BatchSystem& batch) {
  std::vector<JobIdentity> jobs;
  for (const BatchJob& job : batch.queue()) {
    JobIdentity ours{.id = job.id, .name_begin = run + ".", .name_end = ""};
    if (!is_over(job.state) && ours.is(job)) jobs.push_back(std::move(ours));
  }
  return jobs;
}

ChainView refresh(ChainRun& run, const ChainAnswer& answer) {
  ChainView view;
  view.problem = answer.problem;
  view.unaccounted = answer.accounting.missing;
  std::unordered_map<std::string_view, const BatchJob*> accounted;
  for (const BatchJob& job : answer.accounting.jobs) accounted[job.id] = &job;
  for (uint32_t job = 0; job < run.jobs().size(); ++job) {
    const auto found = accounted.find(run.id(job));
    const bool is_known = found != accounted.end() && run.identity(job).is(*found->second);
    if (is_known && !run.is_packed(job)) view.accounting[run.name(job)] = *found->second;
  }
  if (answer.problem.empty()) view.at_work = take_answer(run, answer);
  for (auto& [name, found] : view.at_work) {
    const uint32_t job = run.number_of(name);
    if (!run.is_packed(job)) continue;
    found.limit.reset();  // it is the limit of all jobs that share the task
    if (run.shares_task(job)) view.shared.insert(name);
  }
  run.block_hopeless();
  run.save();
  return view;
}

/// Cancels the jobs of withdrawn attempts that the batch system still has, once nothing of the run
/// is open any more. Some would wait forever for an attempt that will never succeed.
void cancel_withdrawn(const ChainRun& run) {
  const fs::path& directory = run.plan().directory;
  if (!has_withdrawn(directory) || !question_about(run, AskAbout::Open).is_empty()) return;
  if (!elsewhere(directory, name_of_cluster(run.batch())).empty()) return;
  std::vector<JobIdentity> left = jobs_of(run.plan().run, run.batch());
  const std::string end = end_of_names(run.plan());
  for (JobIdentity& job : left) job.name_end = end;
  run.batch().cancel(left);
}

}  // namespace

BatchPlan create_chain(Plan& plan, const ChainServices& services, const fs::path& program) {
  const ClusterLimits cluster = services.batch.cluster();
  BatchPlan planned = fit_to_cluster(plan, services, cluster);
  create_run_directory(plan, plan.profile.runs, services.clock.now(), program,
                       [&](const std::string& run) { return services.store.has_run(run); });
  write_file_atomic(cluster_file(plan.directory), cluster.cluster);
  record_new_run(plan, services.store);
  return planned;
}

ChainResult submit_chain(const fs::path& run_directory, const PlanAgain& again,
                         const ChainServices& services, BatchPlan planned) {
  require_here(run_directory, services.batch);
  const RunLock lock(run_directory);
  withdraw_cancel_request(run_directory);  // it was meant for a submission before us
  return submit_all(run_directory, again, services, std::move(planned));
}

ChainResult submit_listed(const fs::path& run_directory, const ChainServices& services) {
  constexpr std::chrono::minutes kPatience(1);  // while another process submits jobs of the run
  require_here(run_directory, services.batch);
  const RunLock lock(run_directory, kPatience);
  if (is_cancel_requested(run_directory)) return {};
  return submit_all(run_directory, {.none = true}, services);
}

CancelResult cancel_chain(const fs::path& run_directory, const std::vector<std::string>& names,
                          const ChainServices& services) {
  constexpr std::chrono::minutes kPatience(5);  // another call may be at work
  require_here(run_directory, services.batch);
  const auto lock = take_over(run_directory, kPatience);
  if (!lock) {
    throw Error(Errc::Unavailable, "another dlflow process is working on " +
                                       run_directory.string() +
                                       " and has been asked to stop; nothing is cancelled yet");
  }
  withdraw_cancel_request(run_directory);
  ChainRun run(run_directory, services);
  return cancel_jobs(run, names);
}

size_t jobs_in_queue(const fs::path& run_directory, BatchSystem& batch) {
  require_here(run_directory, batch);
  return jobs_of(run_name(run_directory), batch).size();
}

size_t cancel_lost_chain(const std::string& run, BatchSystem& batch) {
  const std::vector<JobIdentity> jobs = jobs_of(run, batch);
  const JobAnswer answer = batch.cancel(jobs);
  if (answer.kind == JobAnswer::Kind::Refused) throw Error(Errc::InvalidInput, answer.message);
  return jobs.size();
}

std::vector<ChainView> refresh_chains(std::span<const fs::path> run_directories,
                                      const ChainServices& services, AskAbout what) {
  struct Opened {
    Opened(RunLock held, const fs::path& directory, const ChainServices& services)
        : lock(std::move(held)), chain(directory, services) {}
    RunLock lock;
    ChainRun chain;
    std::string elsewhere;
  };
  std::vector<std::unique_ptr<Opened>> opened;
  ChainQuestion question;
  std::optional<std::string> here;
  for (const fs::path& directory : run_directories) {
    auto lock = RunLock::try_acquire(directory);
    opened.push_back(lock ? std::make_unique<Opened>(std::move(*lock), directory, services)
                          : nullptr);
    if (!opened.back()) continue;
    ChainQuestion own = question_about(opened.back()->chain, what);
    if (own.is_empty()) continue;
    if (!here) here = name_of_cluster(services.batch);
    opened.back()->elsewhere = elsewhere(directory, *here);
    if (opened.back()->elsewhere.empty()) question.add(std::move(own));
  }
  const ChainAnswer answer = ask_or_say_why_not(services.batch, question);
  std::vector<ChainView> views(run_directories.size());
  for (size_t run = 0; run < opened.size(); ++run) {
    if (!opened[run]) continue;
    ChainAnswer none;
    none.problem = opened[run]->elsewhere;
    views[run] = refresh(opened[run]->chain, none.problem.empty() ? answer : none);
    services.store.settle_run_state(run_directories[run].string());
    cancel_withdrawn(opened[run]->chain);
  }
  return views;
}

std::vector<PreviewedBatch> preview_chain(Plan plan, const ChainServices& services) {
  BatchPlan checked = fit_to_cluster(plan, services, services.batch.cluster());
  plan.run = "RUN";
  plan.directory = std::filesystem::absolute(plan.profile.runs) / plan.run;
  const std::vector<Standing> standing = standings_of(plan);
  const auto& batches = batches_for(plan, standing, services.batch, checked);
  const BatchRange numbers = {1, uint32_t(batches.size())};
  std::vector<std::string> ids;
  std::vector<PreviewedBatch> previewed;
  for (uint32_t place = 0; place < batches.size(); ++place) {
    const PlannedBatch& planned = batches[place];
    const Batch batch = describe_batch(plan, planned, numbers, place, ids);
    const Profile& profile = profile_of(plan, plan.jobs[planned.jobs.front()]);
    previewed.push_back({.step = planned.step,
                         .jobs = planned.jobs,
                         .tasks = batch.tasks,
                         .resources = batch.resources,
                         .nodes = num_nodes(batch.resources, profile),
                         .limit = time_limit(batch.resources, profile),
                         .waits_for = parents_of(planned),
                         .script = services.batch.render(batch, profile).text});
    ids.push_back("JOB" + std::to_string(place + 1));
  }
  return previewed;
}

}  // namespace dlflow
