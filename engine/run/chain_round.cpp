#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/fault.h"
#include "base/sha256.h"
#include "engine/plan/run_directory.h"
#include "engine/run/chain_work.h"
#include "engine/run/engine.h"
#include "engine/slurm/submissions.h"

/// A round of sbatch calls: parents before children, and each of them once, whatever happens
/// meanwhile (docs/operator/slurm.md, "Exactly once").
namespace dlflow {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// How many batches of the round must have their ids before `batch` can be submitted.
size_t num_needed(const PlannedBatch& batch) {
  size_t needed = 0;
  for (const Link& link : batch.links) {
    const bool earlier = link.kind != Link::Kind::Id && link.kind != Link::Kind::EndedId;
    if (earlier) needed = std::max<size_t>(needed, link.batch + 1);
  }
  return needed;
}

}  // namespace

/// "RUN.7.train.5c1e": found by its number in the run, and by nobody else's run of that name.
std::string Chain::batch_name(uint32_t number, uint32_t step) const {
  const std::string place = plan_.directory.string() + to_rfc3339(plan_.created);
  return plan_.run + "." + std::to_string(number) + "." + plan_.workflow.steps[step].name + "." +
         sha256_hex(place).substr(0, 4);
}

std::string Chain::progress() const {
  const auto unknown = size_t(std::count(ids_.begin(), ids_.end(), ""));
  return std::to_string(ids_.size() - unknown) + " of " + std::to_string(ids_.size()) +
         " jobs are submitted.\n       `dlflow run --resume " + plan_.run +
         "` looks for the others first and submits only what is missing.";
}

/// What keeps dlflow below a limit that it ran into.
std::string Chain::limit_advice() const {
  const Profile& profile = plan_.profile;
  return "\n       With `limits: {jobs: N}` in " +
         (profile.file.empty() ? "the profile " + profile.name : profile.file) +
         " dlflow counts your jobs itself, and submits N at a time.";
}

/// All that the round means to do is on disk when it returns; as many syncs for one job as for all.
BatchRange Chain::write_intents(const std::vector<PlannedBatch>& round) {
  const std::vector<BatchRange> before = batch_ranges(plan_.directory);
  const uint32_t first = before.empty() ? 1 : before.back().last + 1;
  BatchLines lines;
  for (uint32_t i = 0; i < round.size(); ++i) {
    const PlannedBatch& planned = round[i];
    for (size_t j = 0; j < planned.jobs.size(); ++j) {
      const uint32_t job = planned.jobs[j];
      if (jobs_[job].state == JobState::Planned) ++jobs_[job].attempt;
      const uint32_t task = planned.is_array ? planned.tasks[j] : 0;
      lines.add({first + i, task, jobs_[job].attempt, job_spec(plan_, job)});
    }
  }
  const BatchRange range{first, first + uint32_t(round.size()) - 1};
  write_batch_file(batch_file(plan_.directory, range), lines.text());
  crash_point("batches");
  for (const PlannedBatch& planned : round) {
    for (const uint32_t job : planned.jobs) record_.move(job, JobState::Submitting);
  }
  record_.sync();
  crash_point("intents");
  return range;
}

Batch Chain::describe(const PlannedBatch& planned, uint32_t number, BatchRange round,
                      const std::vector<std::string>& ids) const {
  const Step& step = plan_.workflow.steps[planned.step];
  Batch batch;
  batch.name = batch_name(number, planned.step);
  batch.resources = plan_.jobs[planned.jobs.front()].resources;
  batch.tasks = planned.tasks;
  batch.max_parallel = planned.max_parallel;
  batch.dependency = dependency(planned.links, ids);
  batch.may_requeue = step.checkpoint || step.uses == "train" || step.retry.attempts > 1;
  batch.run_directory = plan_.directory;
  batch.log = plan_.directory / "batches" / (batch.name + ".log");
  batch.command = {frozen_program(plan_.directory), "job-exec", batch_file(plan_.directory, round),
                   std::to_string(number), std::string(kTaskWord)};
  batch.comment = "step '" + step.name + "' of " + plan_.run;
  return batch;
}

/// The id under which SLURM has the batch.
std::string Chain::id_of(const PlannedBatch& planned, uint32_t number, const SbatchAnswer& answer) {
  constexpr int kLooks = 5;
  if (const auto* accepted = std::get_if<Accepted>(&answer)) return accepted->id;
  if (const auto* refused = std::get_if<Refused>(&answer)) {
    const std::string message = "sbatch refuses step '" + plan_.workflow.steps[planned.step].name +
                                "' of " + plan_.run + ": " + refused->message;
    if (!refused->too_many) throw Error(Errc::InvalidInput, message);
    throw TooManyJobs(message, planned.jobs.size());
  }
  for (int look = 0; look < kLooks; ++look) {  // the answer was lost; the job may show late
    const std::vector<std::string> names = {batch_name(number, planned.step)};
    const auto found = services_.tools.find_by_name(names, plan_.created);
    if (!found.empty()) return std::string(array_id(found.front().id));
    std::this_thread::sleep_for(1s);
  }
  throw Error(Errc::Unavailable, std::get<Unclear>(answer).message);
}

/// Not synced: what a power cut takes away here is found again by name.
void Chain::take_id(const PlannedBatch& planned, const std::string& id, ChainResult& result) {
  for (size_t i = 0; i < planned.jobs.size(); ++i) {
    const uint32_t job = planned.jobs[i];
    ids_[job] = planned.is_array ? id + "_" + std::to_string(planned.tasks[i]) : id;
    record_.move(job, JobState::Queued, ids_[job]);
  }
  const Resources& resources = plan_.jobs[planned.jobs.front()].resources;
  result.submitted.push_back({planned.step, id, planned.jobs.size(), resources});
}

/// Batches that do not wait for each other may be in sbatch at the same time; answers are taken in
/// the round's order. After one that is no id nothing more is begun; what was, is still taken.
void Chain::submit(const std::vector<PlannedBatch>& round, ChainResult& result) {
  if (round.empty()) return;
  const BatchRange range = write_intents(round);
  std::vector<std::string> ids;
  Submissions calls(services_.tools, plan_.profile.limits.submit_interval);
  const auto take_answer = [&] {
    const PlannedBatch& planned = round[ids.size()];
    const uint32_t number = range.first + uint32_t(ids.size());
    ids.emplace_back();
    const SbatchAnswer answer = calls.finish_first();
    crash_point("accepted");
    ids.back() = id_of(planned, number, answer);
    take_id(planned, ids.back(), result);
    crash_point("recorded");
  };
  const auto take_the_rest = [&] {
    while (!calls.empty()) {
      try {
        take_answer();
      } catch (const Error&) {  // the first problem is the one to tell
      }
    }
  };
  try {
    for (uint32_t i = 0; i < round.size(); ++i) {
      while (calls.is_full() || ids.size() < num_needed(round[i])) take_answer();
      if (fs::exists(cancel_file(plan_.directory))) {
        throw Error(Errc::Unavailable, "stopped by `dlflow cancel`");
      }
      crash_point("sbatch");
      calls.begin(sbatch_script(describe(round[i], range.first + i, range, ids), plan_.profile));
    }
    while (!calls.empty()) take_answer();
  } catch (const TooManyJobs& refused) {
    take_the_rest();
    throw TooManyJobs(std::string(refused.what()) + "\n       " + progress() + limit_advice(),
                      refused.jobs);
  } catch (const Error& error) {
    take_the_rest();
    throw Error(error.code(), std::string(error.what()) + "\n       " + progress());
  }
}

}  // namespace dlflow
