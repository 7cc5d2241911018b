#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/comm/communicator.h"
#include "steps/environment/program_help.h"

namespace dlflow::steps {

/// A step kind as a separate program whose ranks work together.
struct RankProgram {
  ProgramHelp help;
  std::string task;                                 ///< "train", as a verb: "what to train?"
  std::function<int(runtime::Communicator&)> work;  ///< returns a rank's exit status
  std::function<bool()> can_resume = [] { return false; };  ///< see run_rank()
  /// Further variables that `dlflow run` sets for this program, with their defaults.
  std::vector<std::pair<const char*, const char*>> further_defaults = {};
  std::function<void()> before_ranks = [] {};  ///< called in the rank before threads exist
};

/// For the help: the variables that every such program reads, followed by `further`.
std::vector<HelpEntry> variables_of_ranks(const std::vector<HelpEntry>& further = {});

/// main() of such a program: `PROGRAM [--ranks N] with.json`, or without arguments if `dlflow run`
/// started it; also --help and --man-page.
int run_program(const RankProgram& program, int argc, char** argv);

}  // namespace dlflow::steps
