#pragma once

#include <span>
#include <string>

#include "tests/support/fake_slurm/options.h"
#include "tests/support/fake_slurm/world.h"

namespace dlflow::fake_slurm {

/// The options of sbatch in `version` (2205): all that slurm_opt.c of it has, so that one of a
/// newer SLURM is refused.
std::vector<Option> sbatch_options(int version);

/// A mistake that sbatch finds itself: what it prints behind "sbatch: error: ", and its status.
struct BadOption {
  std::string text;
  int status = 255;
  std::string plain = {};  ///< a line before it, without "sbatch: error: "
};

/// Applies options in their order to `request`. Throws BadOption.
void apply(const Words& words, Seconds now, Request& request);

/// The words of the #SBATCH lines above the first command of a script.
std::vector<std::string> script_options(const std::string& script);

/// USR1, SIGUSR1, 10; 0 if it is none.
int signal_number(const std::string& word);

}  // namespace dlflow::fake_slurm
