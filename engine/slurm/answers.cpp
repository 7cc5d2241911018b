#include "engine/slurm/answers.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "engine/slurm/output.h"

namespace dlflow {
namespace {

bool contains_any(std::string_view text, std::span<const std::string_view> phrases) {
  return std::any_of(phrases.begin(), phrases.end(),
                     [text](std::string_view phrase) { return text.find(phrase) != text.npos; });
}

/// "sbatch: error: Batch job submission failed: X" -> "X"; empty if there is no such word.
std::string_view behind_error(std::string_view line) {
  constexpr std::array<std::string_view, 3> kBefore = {"error: ", "fatal: ", "failed: "};
  std::string_view rest;
  for (const std::string_view word : kBefore) {
    if (const size_t at = line.find(word); at != line.npos) {
      rest = line = line.substr(at + word.size());
    }
  }
  return trim(rest);
}

/// The lines of standard error that tell of an error; all, if none does.
std::string errors_of(std::string_view standard_error) {
  std::vector<std::string> errors;
  std::vector<std::string> lines;
  for (const std::string& line : split(standard_error, '\n')) {
    const std::string_view error = behind_error(line);
    if (!error.empty()) errors.emplace_back(error);
    if (!trim(line).empty()) lines.emplace_back(trim(line));
  }
  std::vector<std::string>& chosen = errors.empty() ? lines : errors;
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return join(chosen, "; ");
}

}  // namespace

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

std::string failure(std::string_view tool, const Output& output,
                    std::chrono::milliseconds time_limit) {
  const std::string name(tool);
  std::string errors = errors_of(output.errors);
  if (output.timed_out) {
    const int64_t ms = time_limit.count();
    const std::string limit =
        ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
    return name + " did not answer within " + limit + (errors.empty() ? "" : ": " + errors);
  }
  if (output.status.signal != 0) {
    return name + " was killed by signal " + std::to_string(output.status.signal);
  }
  if (!errors.empty()) return errors;
  return name + " ended with exit status " + std::to_string(output.status.code);
}

SubmitAnswer sbatch_answer(const Output& output, std::chrono::milliseconds time_limit) {
  constexpr std::array<std::string_view, 4> kTooMany = {"MaxSubmitJob", "GrpSubmitJob",
                                                        "temporarily unable to accept job",
                                                        "Resource temporarily unavailable"};
  const auto id = submitted_id(output.text);
  if (is_transient(output)) return Unclear{failure("sbatch", output, time_limit)};
  if (output.status.code == 0) {
    if (id) return Accepted{*id};
    return Unclear{"sbatch printed no job id: " + shell_quote(trim(output.text).substr(0, 200))};
  }
  if (id) return Unclear{failure("sbatch", output, time_limit) + ", but printed job id " + *id};
  return Refused{failure("sbatch", output, time_limit), contains_any(output.errors, kTooMany)};
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
