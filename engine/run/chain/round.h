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

/// The batch system refuses a batch of so many jobs, because of a limit on submitted jobs; later
/// there are fewer.
class TooManyJobs : public Error {
 public:
  TooManyJobs(const std::string& message, size_t batch)
      : Error(Errc::Unavailable, message), jobs(batch) {}
  size_t jobs;
};

/// The batch for `planned`, which has the place `place` in the submissions `numbers`.
/// \param ids  of the submissions before it.
Batch describe_batch(const Plan& plan, const PlannedBatch& planned, BatchRange numbers,
                     uint32_t place, const std::vector<std::string>& ids);

/// A round of submissions: parents before children, and each exactly once, even after a kill
/// (docs/contributor/chains.md, "Exactly once").
///
/// Before the first submission all intents of the round are on disk: which jobs, in which attempt,
/// under which name (a batch file, then the jobs' state Submitting). The returned id is written
/// down, too, but not synced: whoever finds a job Submitting asks the batch system for its name
/// (adopt_doubtful). So a kill at any point leaves one of three cases: there is no intent, and the
/// job is Planned; the job was submitted, and is found by its name; or it was not, and is submitted
/// under the next name.
///
/// Batches that do not wait for each other are submitted at the same time, up to a limit; answers
/// are taken in the round's order. After an answer without an id no further call begins; the
/// answers of calls at work are still taken.
class SubmissionRound {
 public:
  /// `run` must outlive it. \param excluded_nodes  that no job of it may run on
  SubmissionRound(ChainRun& run, std::vector<PlannedBatch> batches,
                  std::vector<std::string> excluded_nodes);

  /// Adds each accepted batch to `submitted`. Throws Error: TooManyJobs, InvalidInput if one is
  /// refused, Unavailable if it stays unclear whether one was accepted, or somebody asked for an
  /// end; all report the progress and how to continue.
  void submit(std::vector<SubmittedBatch>& submitted);

 private:
  void write_intents();
  void submit_all(std::vector<SubmittedBatch>& submitted);
  void take_answer(std::vector<SubmittedBatch>& submitted);
  void take_the_rest(std::vector<SubmittedBatch>& submitted);
  std::string id_of(uint32_t place, const SubmitAnswer& answer);
  std::string look_up(uint32_t place, const std::string& problem);
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
