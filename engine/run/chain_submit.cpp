#include <algorithm>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/fault.h"
#include "base/sha256.h"
#include "engine/plan/run_directory.h"
#include "engine/run/chain_work.h"
#include "engine/slurm/batch_file.h"
#include "engine/slurm/limits.h"

/// What of a chain SLURM does not have yet, and how it gets that, once.
namespace dlflow {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr int kDefaultArraySize = 1001;  // SLURM's default of MaxArraySize

}  // namespace

/// Looks up the batches of jobs of which it is not known whether SLURM has them.
void Chain::adopt(ChainResult& result) {
  std::set<std::string> doubtful;
  for (uint32_t job = 0; job < jobs_.size(); ++job) {
    if (jobs_[job].state == JobState::Submitting) doubtful.insert(plan_.jobs[job].name);
  }
  std::vector<std::string> suspects;
  const std::vector<std::string> names = batch_names(plan_.directory);
  for (auto name = names.rbegin(); name != names.rend() && !doubtful.empty(); ++name) {
    size_t concerned = 0;
    for (const BatchEntry& entry : read_batch_entries(batch_file(plan_.directory, *name))) {
      concerned += doubtful.erase(entry.job);
    }
    if (concerned > 0) suspects.push_back(*name);
  }
  if (suspects.empty()) return;
  std::map<std::string, std::string> found;
  for (const SlurmJob& job : services_.tools.find_by_name(suspects, plan_.created)) {
    found[job.name] = array_id(job.id);
  }
  for (const auto& [name, id] : found) adopt(name, id, result);
}

/// SLURM has this batch: so it has its jobs, of which some may have begun.
void Chain::adopt(const std::string& batch, const std::string& id, ChainResult& result) {
  for (const BatchEntry& entry : read_batch_entries(batch_file(plan_.directory, batch))) {
    const uint32_t job = number_of_.at(entry.job);
    if (jobs_[job].state != JobState::Submitting) continue;
    const bool is_task = !plan_.jobs[job].label().empty();
    ids_[job] = is_task ? id + "_" + std::to_string(entry.task) : id;
    record_.move(job, JobState::Queued, ids_[job]);
    result.adopted.push_back(entry.job);
  }
}

/// Known results whose place in the chain has come.
void Chain::reuse() {
  for (const auto& [job, known] : plan_.reused) {
    if (jobs_[job].state != JobState::Planned) continue;
    JobEvent cached;
    cached.job = plan_.jobs[job].name;
    cached.state = JobState::Cached;
    cached.at = services_.clock.now();
    cached.reason = "reused from " + known.run;
    cached.outputs = known.outputs;
    cached.metrics = known.metrics;
    cached.reused_from = known.directory.string();
    record_.write(job, std::move(cached));
  }
}

std::vector<Standing> Chain::standing() const {
  using Kind = Standing::Kind;
  std::vector<Standing> result(jobs_.size());
  for (uint32_t job = 0; job < jobs_.size(); ++job) {
    const JobState state = jobs_[job].state;
    Standing& mine = result[job];
    if (satisfies_dependents(state) || state == JobState::Skipped) continue;
    mine.kind = Kind::LeftOut;
    if (state == JobState::Queued || state == JobState::Running || stuck_.contains(job)) {
      mine = {Kind::Waiting, ids_[job]};
    } else if (state == JobState::Planned || state == JobState::Submitting) {
      mine.kind = Kind::ToSubmit;
    }
    for (const JobRange& range : plan_.graph.parents(job)) {
      for (uint32_t parent = range.first; parent < range.first + range.count; ++parent) {
        if (result[parent].kind == Kind::LeftOut) mine.kind = Kind::LeftOut;
      }
    }
  }
  return result;
}

/// "RUN.7.train.5c1e": found by its number in the run, and by nobody else's run of that name.
std::string Chain::batch_name(uint32_t step) {
  const std::string place = plan_.directory.string() + to_rfc3339(plan_.created);
  return plan_.run + "." + std::to_string(++num_batches_) + "." + plan_.workflow.steps[step].name +
         "." + sha256_hex(place).substr(0, 4);
}

std::string Chain::progress() const {
  const auto unknown = size_t(std::count(ids_.begin(), ids_.end(), ""));
  return std::to_string(ids_.size() - unknown) + " of " + std::to_string(ids_.size()) +
         " jobs are submitted.\n       `dlflow run --resume " + plan_.run +
         "` looks for the others first and submits only what is missing.";
}

/// The id under which SLURM has the batch.
std::string Chain::hand_over(const Batch& batch) {
  constexpr int kLooks = 5;
  const SbatchAnswer answer = services_.tools.submit(sbatch_script(batch, plan_.profile));
  crash_point("accepted");
  if (const auto* accepted = std::get_if<Accepted>(&answer)) return accepted->id;
  if (const auto* refused = std::get_if<Refused>(&answer)) {
    const Errc code = refused->too_many ? Errc::Unavailable : Errc::InvalidInput;
    throw Error(code, "sbatch refuses " + batch.comment + ": " + refused->message + "\n       " +
                          progress());
  }
  for (int look = 0; look < kLooks; ++look) {  // the answer was lost; the job may show late
    const std::vector<std::string> names = {batch.name};
    const auto found = services_.tools.find_by_name(names, plan_.created);
    if (!found.empty()) return std::string(array_id(found.front().id));
    std::this_thread::sleep_for(1s);
  }
  throw Error(Errc::Unavailable, std::get<Unclear>(answer).message + "\n       " + progress());
}

Batch Chain::describe(const PlannedBatch& planned, const std::string& name,
                      const fs::path& file) const {
  const Step& step = plan_.workflow.steps[planned.step];
  Batch batch;
  batch.name = name;
  batch.resources = plan_.jobs[planned.jobs.front()].resources;
  batch.tasks = planned.tasks;
  batch.dependency = dependency(planned.links, batch_ids_);
  batch.may_requeue = step.checkpoint || step.uses == "train" || step.retry.attempts > 1;
  batch.run_directory = plan_.directory;
  batch.log = plan_.directory / "batches" / (name + ".log");
  batch.command = {frozen_program(plan_.directory), "job-exec", file, std::string(kTaskWord)};
  batch.comment = "step '" + step.name + "' of " + plan_.run;
  return batch;
}

void Chain::submit(const PlannedBatch& planned, ChainResult& result) {
  const std::string name = batch_name(planned.step);
  const fs::path file = batch_file(plan_.directory, name);
  std::vector<BatchTask> tasks;
  for (size_t i = 0; i < planned.jobs.size(); ++i) {
    const uint32_t job = planned.jobs[i];
    if (jobs_[job].state == JobState::Planned) ++jobs_[job].attempt;
    const uint32_t task = planned.is_array ? planned.tasks[i] : 0;
    tasks.push_back({task, jobs_[job].attempt, job_spec(plan_, job)});
  }
  write_batch_file(file, tasks);
  for (const uint32_t job : planned.jobs) record_.move(job, JobState::Submitting);
  record_.sync();
  crash_point("intent");
  const Batch batch = describe(planned, name, file);
  const std::string id = hand_over(batch);
  batch_ids_.push_back(id);
  for (const BatchTask& task : tasks) {
    const uint32_t job = number_of_.at(task.spec.job);
    ids_[job] = planned.is_array ? id + "_" + std::to_string(task.task) : id;
    record_.move(job, JobState::Queued, ids_[job]);
  }
  record_.sync();
  crash_point("recorded");
  result.submitted.push_back({planned.step, id, tasks.size(), batch.resources});
}

/// What a stuck job has to wait for now: empty if all its parents are done, whatever SLURM thinks
/// of them. Nothing if a parent has yet to be submitted.
std::optional<std::string> Chain::new_dependency(uint32_t job) const {
  std::set<std::string> ids;
  for (const JobRange& range : plan_.graph.parents(job)) {
    for (uint32_t parent = range.first; parent < range.first + range.count; ++parent) {
      const JobState state = jobs_[parent].state;
      if (satisfies_dependents(state) || state == JobState::Skipped) continue;
      if (ids_[parent].empty()) return std::nullopt;
      ids.insert(ids_[parent]);
    }
  }
  std::vector<Link> links;
  for (const std::string& id : ids) links.push_back({.kind = Link::Kind::Id, .id = id});
  return dependency(links, {});
}

/// Jobs that SLURM has kept wait for what is there now. The record comes first: one that says less
/// than SLURM knows is repaired by the next call. False if SLURM has dropped some meanwhile.
bool Chain::repoint(ChainResult& result) {
  bool all = true;
  for (const uint32_t job : std::exchange(stuck_, {})) {
    if (jobs_[job].state == JobState::Planned) {
      record_.move(job, JobState::Submitting);
      record_.move(job, JobState::Queued, ids_[job]);
      record_.sync();
    }
    crash_point("repoint");
    const auto dependency = new_dependency(job);
    if (!dependency) {  // the parent is one that SLURM has dropped: it comes in the next round
      stuck_.insert(job);
      continue;
    }
    const JobAnswer answer = services_.tools.update_dependency(ids_[job], *dependency);
    if (answer.kind == JobAnswer::Kind::Done) {
      result.repointed.push_back(plan_.jobs[job].name + " " + ids_[job]);
      continue;
    }
    if (answer.kind == JobAnswer::Kind::Refused) services_.tools.cancel({{ids_[job]}});
    record_.move(job, JobState::Lost, "", "SLURM could not keep it: " + answer.message);
    record_.move(job, JobState::Planned);
    ids_[job].clear();
    all = false;
  }
  return all;
}

void Chain::submit_what_is_missing(ChainResult& result) {
  const int allowed = plan_.profile.limits.array_size;
  const int size = allowed > 0 ? allowed : kDefaultArraySize;
  do {
    batch_ids_.clear();
    for (const PlannedBatch& batch : plan_batches(plan_, standing(), uint32_t(size))) {
      submit(batch, result);
    }
  } while (!repoint(result));
}

ChainResult Chain::submit(const PlanAgain& again) {
  ChainResult result;
  adopt(result);
  const auto at_work = look(Doubt::GiveUp);
  block_descendants();
  for (uint32_t job = 0; job < jobs_.size(); ++job) {
    result.kept += satisfies_dependents(jobs_[job].state);
    const auto found = at_work.find(plan_.jobs[job].name);
    if (found == at_work.end() || found->second.state != SlurmState::Pending) continue;
    const JobState state = jobs_[job].state;
    const bool never = found->second.reason == "DependencyNeverSatisfied";
    if (state == JobState::Blocked || state == JobState::Planned || never) stuck_.insert(job);
  }
  prepare_again(plan_, jobs_, again, services_.clock.now(),
                [](const Plan& plan) { check_limits(plan, std::nullopt); });
  plan_again(plan_, jobs_, again, [this](uint32_t job, JobState state, const std::string& reason) {
    record_.move(job, state, "", reason);
  });
  std::erase_if(stuck_, [this](uint32_t job) { return jobs_[job].state == JobState::Blocked; });
  reuse();
  services_.store.set_run_state(plan_.run, RunState::Running, services_.clock.now());
  try {
    submit_what_is_missing(result);
  } catch (...) {
    record_.save();  // what was submitted is
    throw;
  }
  record_.save();
  services_.store.settle_run_state(plan_.run);
  return result;
}

}  // namespace dlflow
