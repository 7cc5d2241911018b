#include "engine/slurm/answers.h"

#include <array>

#include "base/text.h"
#include "engine/batch/tool_runner.h"
#include "engine/slurm/output.h"

namespace dlflow {
bool is_transient(const Output& output) {
  constexpr std::array<std::string_view, 14> kPhrases = {"Unable to contact slurm",
                                                         "Socket timed out",
                                                         "Zero Bytes were transmitted",
                                                         "Communication connection failure",
                                                         "Communication shutdown failure",
                                                         "Message receive failure",
                                                         "Unexpected message received",
                                                         "Transport endpoint is not connected",
                                                         "Connection timed out",
                                                         "Connection refused",
                                                         "Connection reset",
                                                         "Connection forced closed",
                                                         "slurmctld is shutting down",
                                                         "Slurm backup controller in standby mode"};
  if (output.timed_out || output.status.signal != 0) return true;
  return output.status.code != 0 && contains_any(output.errors, kPhrases);
}

SubmitAnswer sbatch_answer(const Output& output, std::chrono::milliseconds time_limit) {
  constexpr std::array<std::string_view, 4> kTooMany = {"MaxSubmitJob", "GrpSubmitJob",
                                                        "temporarily unable to accept job",
                                                        "Resource temporarily unavailable"};
  return submit_answer("sbatch", output, submitted_id(output.text), is_transient(output), kTooMany,
                       time_limit);
}

JobAnswer job_answer(const Output& output) {
  constexpr std::array<std::string_view, 4> kGone = {"Invalid job id", "Job has already finished",
                                                     "already completing or completed",
                                                     "Job is not pending nor running"};
  if (output.status.code == 0 && output.errors.empty()) return {};
  if (contains_any(output.errors, kGone)) {
    return {JobAnswer::Kind::Gone, errors_of(output.errors)};
  }
  // A requeue whose first answer was lost.
  if (output.errors.find("Job is pending execution") != std::string::npos) return {};
  // scancel and scontrol end with 0 after some errors, and print warnings of no weight.
  if (output.status.code == 0 && output.errors.find("error") == std::string::npos) return {};
  return {JobAnswer::Kind::Refused, failure("scontrol", output, {})};
}

}  // namespace dlflow
