#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dlflow {

/// Traits of a training script in Python, as its text shows them.
struct ScriptTraits {
  std::string framework;                  ///< "accelerate"; empty: none that is known
  bool takes_ranks = false;               ///< several of it can work together
  int nodes = 0, ranks_per_node = 0;      ///< those that it insists on; 0: none
  std::string newer;                      ///< pattern of its checkpoints; empty: none to go on from
  std::vector<std::string> options = {};  ///< {"--output_dir", "out"}, where they are then
  std::string resume;  ///< "--resume", or with its value; empty: it goes on by itself
  std::vector<std::string> saved = {};  ///< other files that it saves
};

ScriptTraits traits_of_script(const std::string& text);

/// The value of `run:`. \param command  ["python3", "train.py"]
std::string run_of_script(const ScriptTraits& traits, const std::vector<std::string>& command);

}  // namespace dlflow
