#pragma once

#include <map>
#include <string>
#include <vector>

namespace dlflow {

/// A script for sbatch, in parts.
struct BatchScript {
  std::map<std::string, std::string> options;  ///< by their long names: "ntasks" -> "4"
  std::vector<std::string> modules;
  std::string packages;               ///< "venv: \"/home/me/venv\"", or empty
  std::string body;                   ///< the other lines
  std::vector<std::string> left_out;  ///< of them
  bool starts_ranks = false;          ///< srun or mpirun stood in the body
};

BatchScript read_batch_script(const std::string& text);

/// The step that does the same. \param inputs  what the body reads, named by the workflow
std::string step_of_batch_script(const BatchScript& script, const std::string& name,
                                 const std::string& walltime,
                                 const std::vector<std::string>& inputs);

}  // namespace dlflow
