#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/batch/batch_file.h"
#include "engine/batch/batches.h"
#include "engine/batch/submissions.h"
#include "engine/run/chain/chain_run.h"

namespace dlflow {

/// The batch system refuses a batch of so many jobs: of a limit on submitted jobs, which are fewer
/// later.
class TooManyJobs : public Error {
 public:
  TooManyJobs(const std::string& message, size_t batch)
      : Error(Errc::Unavailable, message), jobs(batch) {}
  size_t jobs;
};

/// The submission `planned`, which is the one at `place` of those with `numbers`.
/// \param ids  of the submissions before it.
Batch describe_batch(const Plan& plan, const PlannedBatch& planned, BatchRange numbers,
                     uint32_t place, const std::vector<std::string>& ids);

/// A round of submissions: parents before children, and each of them once, whatever happens
/// meanwhile (docs/operator/slurm.md, "Exactly once").
///
/// Before the first submission all that the round means to do is on disk: which jobs, in which
/// attempt, under which name (a batch file, then the jobs' state Submitting). The id that comes
/// back is written down, too, but not waited for: whoever finds a job Submitting asks the batch
/// system for its name (adopt_doubtful). So a kill at any point leaves one of three things: nothing
/// was said, and the job is Planned; something was said and done, and is found by its name; it was
/// said and not done, and is submitted under the next name.
///
/// Batches that do not wait for each other are submitted at the same time, some at once; answers
/// are taken in the round's order. After one that is no id nothing more is begun; what was, is
/// still taken.
class SubmissionRound {
 public:
  /// `run` must outlive it. \param excluded_nodes  that no job of it may run on
  SubmissionRound(ChainRun& run, std::vector<PlannedBatch> batches,
                  std::vector<std::string> excluded_nodes);

  /// Adds each batch that was accepted to `submitted`. Throws Error: TooManyJobs, InvalidInput if
  /// one is refused, Unavailable if it stays unclear whether one was accepted, or somebody asked
  /// for an end; all say how far it came and how to go on.
  void submit(std::vector<SubmittedBatch>& submitted);

 private:
  void write_intents();
  void submit_all(std::vector<SubmittedBatch>& submitted);
  void keep_script(const Batch& batch, const Profile& profile) const;
  Batch describe(uint32_t place) const;
  const Profile& place_of(uint32_t place) const;
  void take_answer(std::vector<SubmittedBatch>& submitted);
  void take_the_rest(std::vector<SubmittedBatch>& submitted);
  std::string id_of(uint32_t place, const SubmitAnswer& answer);
  std::string look_up(uint32_t place, const std::string& problem);
  void take_id(const PlannedBatch& batch, const std::string& id);
  std::string progress() const;
  std::string limit_advice() const;

  ChainRun& run_;
  std::vector<PlannedBatch> batches_;
  std::vector<std::string> excluded_nodes_;
  BatchRange numbers_;  // of the batches, in their order
  Submissions calls_;
  std::vector<std::string> ids_;  // of those that were answered
};

}  // namespace dlflow
