#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "base/process.h"

/// What the end of an sbatch, scancel or scontrol means.
namespace dlflow {

struct Accepted {
  std::string id;
};

struct Refused {
  std::string message;
  bool too_many = false;  ///< a limit of submitted jobs: later it may be accepted
};

/// The job may or may not be there: look for its name before submitting it again.
struct Unclear {
  std::string message;
};

using SbatchAnswer = std::variant<Accepted, Refused, Unclear>;

/// Accepted only with an id and exit status 0.
SbatchAnswer sbatch_answer(const Output& output, std::chrono::milliseconds time_limit);

/// What became of a request about jobs that are there.
struct JobAnswer {
  enum class Kind {
    Done,     ///< also if it was so before
    Gone,     ///< SLURM does not know the job any more, or it has ended
    Refused,  ///< see `message`
  };
  Kind kind = Kind::Done;
  std::string message;
};

/// Of a scontrol or scancel that was answered.
JobAnswer job_answer(const Output& output);

/// The same command may succeed later: the controller did not answer, or the tool was killed.
bool is_transient(const Output& output);

/// Why it failed, in one line: "squeue did not answer within 30 s", "Invalid partition name
/// specified". Standard error without banners, the tool's name and "error:".
std::string failure(std::string_view tool, const Output& output,
                    std::chrono::milliseconds time_limit);

}  // namespace dlflow
