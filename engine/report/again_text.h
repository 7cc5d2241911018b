#pragma once

#include <string>

#include "engine/store/run_status.h"

/// The command for a run that failed, so that it does not fail again the same way.
namespace dlflow {

/// The command that runs again what failed.
struct AgainText {
  std::string command;  ///< "dlflow resubmit sweep-0b77 --set walltime=40m"
  std::string note;     ///< what has to be done before; may be empty
};

/// For the first job that went wrong: more of what it lacked; sources that were corrected, for a
/// program that would end the same way; or nothing more, if a node or the user ended it.
AgainText again_text(const RunStatus& status);

}  // namespace dlflow
