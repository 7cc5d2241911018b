#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/comm/communicator.h"
#include "steps/environment/program_help.h"

namespace dlflow::steps {

/// A step kind as a program of its own, whose ranks work together.
struct RankProgram {
  ProgramHelp help;
  std::string task;                                 ///< "train", as a verb: "what to train?"
  std::function<int(runtime::Communicator&)> work;  ///< of a rank; the exit status
  std::function<bool()> can_resume = [] { return false; };  ///< see run_rank()
  /// Variables that `dlflow run` sets, besides those of every step, and what they are without it.
  std::vector<std::pair<const char*, const char*>> further_defaults = {};
  std::function<void()> before_ranks = [] {};  ///< called in the rank, before there are threads
};

/// Of its help: the variables that every such program reads, and `further` ones.
std::vector<HelpEntry> variables_of_ranks(const std::vector<HelpEntry>& further = {});

/// main() of such a program: `PROGRAM [--ranks N] with.json`, or without an argument if `dlflow
/// run` started it; --help and --man-page.
int run_program(const RankProgram& program, int argc, char** argv);

}  // namespace dlflow::steps
