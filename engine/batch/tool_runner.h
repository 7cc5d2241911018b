#pragma once

#include <charconv>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/process.h"
#include "engine/batch/batch_system.h"

/// The programs of a batch system, run as child processes.
namespace dlflow {

struct ToolOptions {
  std::chrono::milliseconds time_limit{30'000};               ///< of one command
  int tries = 3;                                              ///< of a command that may be repeated
  std::chrono::milliseconds first_pause{1'000};               ///< before the second try; doubles
  std::function<void(std::chrono::milliseconds)> sleep = {};  ///< empty: really sleep
  std::vector<std::string> environment = current_environment();  ///< of dlflow itself
  /// Requests continue when SIGTERM reaches all processes of a job that the batch system ends.
  bool outlives_sigterm = false;
};

/// The part of `environment` with which a job is submitted: the variables that a shell on the
/// cluster needs to find programs and modules, and none by which two submissions of the same run
/// could differ. `own`: the beginnings of entries that the batch system's tools need, "SLURM_CONF".
std::vector<std::string> submission_environment(std::span<const std::string> environment,
                                                std::span<const std::string_view> own);

/// Why a tool failed, in one line: "squeue did not answer within 30 s", "Invalid partition name
/// specified". Standard error without banners, the tool's name and "error:".
std::string failure(std::string_view tool, const Output& output,
                    std::chrono::milliseconds time_limit);

/// The lines of standard error that report an error; all lines if none does.
std::string errors_of(std::string_view standard_error);

/// The answer to a submission by `tool`. \param id  its output. \param is_transient  whether the
/// same may succeed later. \param too_many  its message at a limit on jobs.
SubmitAnswer submit_answer(const std::string& tool, const Output& output,
                           const std::optional<std::string>& id, bool is_transient,
                           std::span<const std::string_view> too_many,
                           std::chrono::milliseconds time_limit);

bool starts_with_any(std::string_view text, std::span<const std::string_view> words);
bool contains_any(std::string_view text, std::span<const std::string_view> phrases);

/// The number at the beginning of `text`: 25 of "25  : rescheduling", 4 of sinfo's "4+"; 0 without
/// one.
template <typename Number>
Number leading_number(std::string_view text) {
  Number value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// The bytes of "812K", "3.340MB", "0.000B" or "512"; 0 for other text.
uint64_t memory_from(std::string_view text);

/// Whether the queue has the job. True if the batch system cannot be asked, since nothing may run
/// twice.
bool is_at_work(BatchSystem& system, const JobIdentity& ours);

/// Cancels the jobs `ids` through `cancel_some` in parts of 1000, and returns the worst answer.
JobAnswer cancel_in_parts(
    std::span<const std::string> ids,
    const std::function<JobAnswer(std::span<const std::string>)>& cancel_some);

/// Runs tools with one environment. Commands are shown by -v.
class ToolRunner {
 public:
  /// Whether the same command may succeed later, by its output.
  using IsTransient = bool (*)(const Output&);

  /// \param environment  of the tools.
  ToolRunner(ToolOptions options, std::vector<std::string> environment, IsTransient is_transient);

  const ToolOptions& options() const { return options_; }

  Output run_once(const std::vector<std::string>& argv) const;

  /// The output is empty if there is no such program.
  Output run_if_there(const std::vector<std::string>& argv) const;

  /// Once, with `input` and another environment.
  Output submit(const std::vector<std::string>& argv, const std::string& input,
                const std::vector<std::string>& environment) const;

  /// Repeats the command after a failure that may pass. Throws Error{Unavailable}: "squeue did not
  /// answer within 30 s (tried 3 times)".
  Output ask(const std::vector<std::string>& argv) const;

  /// The same for commands that change jobs; see ToolOptions::outlives_sigterm.
  Output request(const std::vector<std::string>& argv) const;

  /// Its output; an exit status that is not 0 is no answer. \param system  the name of the batch
  /// system in messages.
  std::string answer(const std::vector<std::string>& argv, std::string_view system) const;

  std::string failure(std::string_view tool, const Output& output) const;

 private:
  ToolOptions options_;
  std::vector<std::string> environment_;
  IsTransient is_transient_;
};

}  // namespace dlflow
