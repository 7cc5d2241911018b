#pragma once

#include <string>
#include <vector>

namespace dlflow {

/// Traits of a training script in Python, found in its text.
struct ScriptTraits {
  std::string framework;                  ///< "accelerate"; empty if unknown
  bool takes_ranks = false;               ///< several ranks can run it together
  int nodes = 0, ranks_per_node = 0;      ///< the numbers that it requires; 0: any
  std::string newer;                      ///< pattern of its checkpoints; empty if it cannot go on
  std::vector<std::string> options = {};  ///< {"--output_dir", "out"}: put checkpoints there
  std::string resume;                     ///< "--resume", or with a value; empty: not needed
  std::vector<std::string> saved = {};    ///< other files that it saves
};

ScriptTraits traits_of_script(const std::string& text);

/// The value of `run:`. \param command  ["python3", "train.py"]
std::string run_of_script(const ScriptTraits& traits, const std::vector<std::string>& command);

}  // namespace dlflow
