#include "engine/run/chain/round.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <utility>
#include <variant>

#include "base/fault.h"
#include "base/text.h"
#include "engine/model/step_kinds.h"
#include "engine/plan/places.h"
#include "engine/plan/run_directory.h"
#include "engine/run/cancel_request.h"

namespace dlflow {
namespace {

using namespace std::chrono_literals;

/// Keeps the submitted script beside its log, for people. A full disk must not prevent the
/// submission.
void keep_script(const Batch& batch, const std::string& text) {
  std::filesystem::path file = batch.log;
  file.replace_extension(".sh");
  std::ofstream(file) << text;
}

/// The number of batches of the round that must have their ids before `batch` can be submitted.
size_t num_needed(const PlannedBatch& batch) {
  size_t needed = 0;
  for (const PlannedDependency& dependency : batch.waits_for) {
    if (dependency.id.empty()) needed = std::max<size_t>(needed, dependency.batch + 1);
  }
  return needed;
}

/// A further possible reason for a refusal.
std::string excluded_in_words(const std::vector<std::string>& nodes) {
  if (nodes.empty()) return "";
  return "\n       Left out, since jobs were lost there: " + join(nodes, ", ") +
         "; `dlflow status --nodes` shows more; `--forgive NODE` allows one again.";
}

}  // namespace

SubmissionRound::SubmissionRound(ChainRun& run, std::vector<PlannedBatch> batches,
                                 std::vector<std::string> excluded_nodes)
    : run_(run),
      batches_(std::move(batches)),
      excluded_nodes_(std::move(excluded_nodes)),
      calls_(run.batch(), run.plan().profile.limits.submit_interval) {}

void SubmissionRound::submit(std::vector<SubmittedBatch>& submitted) {
  if (batches_.empty()) return;
  write_intents();
  try {
    submit_all(submitted);
  } catch (const TooManyJobs& refused) {
    take_the_rest(submitted);
    throw TooManyJobs(std::string(refused.what()) + "\n       " + progress() + limit_advice(),
                      refused.jobs);
  } catch (const Error& error) {
    take_the_rest(submitted);
    throw Error(error.code(), std::string(error.what()) + "\n       " + progress());
  }
}

/// The number of syncs does not depend on the number of jobs.
void SubmissionRound::write_intents() {
  const Plan& plan = run_.plan();
  run_.note_unrecorded_ends();
  const std::vector<BatchRange> before = batch_ranges(plan.directory);
  const uint32_t first = before.empty() ? 1 : before.back().last + 1;
  numbers_ = {first, first + uint32_t(batches_.size()) - 1};
  BatchLines lines;
  for (uint32_t i = 0; i < batches_.size(); ++i) {
    const PlannedBatch& batch = batches_[i];
    for (size_t j = 0; j < batch.jobs.size(); ++j) {
      const JobProgress& progress = run_.jobs()[batch.jobs[j]];
      const int attempt = progress.attempt + (progress.state == JobState::Planned ? 1 : 0);
      lines.add(
          {first + i, batch.is_array ? batch.tasks[j] : 0, attempt, job_spec(plan, batch.jobs[j])});
    }
  }
  write_batch_file(batch_file(plan.directory, numbers_), lines.text());
  crash_point("batches");
  for (const PlannedBatch& batch : batches_) {
    for (const uint32_t job : batch.jobs) {
      if (run_.jobs()[job].state == JobState::Planned) {
        run_.record().submit_anew(job);
      } else {
        run_.record().decide(job, JobState::Submitting);
      }
    }
  }
  run_.record().sync();
  crash_point("intents");
}

void SubmissionRound::submit_all(std::vector<SubmittedBatch>& submitted) {
  for (uint32_t i = 0; i < batches_.size(); ++i) {
    while (calls_.is_full() || ids_.size() < num_needed(batches_[i])) take_answer(submitted);
    if (is_cancel_requested(run_.plan().directory)) {
      throw Error(Errc::Unavailable, "stopped by `dlflow cancel`");
    }
    const Plan& plan = run_.plan();
    Batch batch = describe_batch(plan, batches_[i], numbers_, i, ids_);
    batch.excluded_nodes = excluded_nodes_;
    SubmitCall call =
        run_.batch().render(batch, profile_of(plan, plan.jobs[batches_[i].jobs.front()]));
    keep_script(batch, call.text);
    crash_point("submit");
    calls_.begin(std::move(call));
  }
  while (!calls_.empty()) take_answer(submitted);
}

Batch describe_batch(const Plan& plan, const PlannedBatch& planned, BatchRange numbers,
                     uint32_t place, const std::vector<std::string>& ids) {
  const uint32_t number = numbers.first + place;
  const Step& step = plan.workflow.steps[planned.step];
  Batch batch;
  batch.name = batch_name(plan, number, planned.step);
  batch.resources = packed(*plan.jobs[planned.jobs.front()].resources, largest_task(planned));
  batch.tasks = distinct_tasks(planned);
  batch.max_parallel = planned.max_parallel;
  batch.dependencies = dependencies(planned.waits_for, ids);
  // A shared task continues with the remaining jobs.
  batch.may_requeue =
      can_save(step.uses, step.checkpoint) || step.retry.attempts > 1 || largest_task(planned) > 1;
  batch.leaves_if_hopeless = planned.leaves_if_hopeless;
  if (step.checkpoint) batch.lead = step.checkpoint->lead;
  batch.run_directory = plan.directory;
  batch.log = plan.directory / "batches" / (batch.name + ".log");
  batch.command = {frozen_program(plan.directory), "job-exec", batch_file(plan.directory, numbers),
                   std::to_string(number), std::string(kTaskWord)};
  batch.comment = "step '" + step.name + "' of " + plan.run;
  return batch;
}

void SubmissionRound::take_answer(std::vector<SubmittedBatch>& submitted) {
  const auto place = uint32_t(ids_.size());
  const PlannedBatch& batch = batches_[place];
  ids_.emplace_back();
  const SubmitAnswer answer = calls_.finish_first();
  crash_point("accepted");
  ids_.back() = id_of(place, answer);
  // Not synced: after a power cut the id is found again by name.
  for (size_t i = 0; i < batch.jobs.size(); ++i)
    run_.take_id(batch.jobs[i], ids_.back(), batch.is_array ? batch.tasks[i] : 0);
  submitted.push_back({batch.step, ids_.back(), batch.jobs.size(), num_tasks(batch),
                       *run_.plan().jobs[batch.jobs.front()].resources});
  crash_point("recorded");
}

/// Only the first problem is reported.
void SubmissionRound::take_the_rest(std::vector<SubmittedBatch>& submitted) {
  while (!calls_.empty()) {
    try {
      take_answer(submitted);
    } catch (const Error&) {
    }
  }
}

/// The id under which the batch system has the batch.
std::string SubmissionRound::id_of(uint32_t place, const SubmitAnswer& answer) {
  if (const auto* accepted = std::get_if<Accepted>(&answer)) return accepted->id;
  if (const auto* unclear = std::get_if<Unclear>(&answer)) return look_up(place, unclear->message);
  const auto& refused = std::get<Refused>(answer);
  const Plan& plan = run_.plan();
  const std::string message = std::string(run_.batch().name()) + " refuses step '" +
                              plan.workflow.steps[batches_[place].step].name + "' of " + plan.run +
                              ": " + refused.message + excluded_in_words(excluded_nodes_);
  if (!refused.too_many) throw Error(Errc::InvalidInput, message);
  throw TooManyJobs(message, num_tasks(batches_[place]));
}

/// The answer was lost; the job may show late.
std::string SubmissionRound::look_up(uint32_t place, const std::string& problem) {
  constexpr int kLooks = 5;
  const std::string name = batch_name(run_.plan(), numbers_.first + place, batches_[place].step);
  for (int look = 0; look < kLooks; ++look) {
    const auto found = run_.batch().find_by_name({&name, 1}, run_.plan().created);
    if (!found.empty()) return std::string(array_id(found.front().id));
    run_.services().clock.sleep_for(1s);
  }
  throw Error(Errc::Unavailable, problem);
}

std::string SubmissionRound::progress() const {
  const std::vector<std::string>& ids = run_.ids();  // some are empty
  return std::to_string(ids.size() - size_t(std::ranges::count(ids, ""))) + " of " +
         std::to_string(ids.size()) + " jobs are submitted.\n       `dlflow run --resume " +
         run_.plan().run + "` looks for the others first and submits only what is missing.";
}

/// How to keep dlflow below the limit that it reached.
std::string SubmissionRound::limit_advice() const {
  const Profile& profile = run_.plan().profile;
  return "\n       With `limits: {jobs: N}` in " +
         (profile.file.empty() ? "the profile " + profile.name : profile.file) +
         " dlflow counts your jobs itself, and submits N at a time.";
}

}  // namespace dlflow
