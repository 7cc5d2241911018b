#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace dlflow {

/// A script for sbatch, in parts.
struct BatchScript {
  std::map<std::string, std::string> options;    ///< long names and values: "ntasks" -> "4"
  std::vector<std::string> modules;              ///< in quotes
  std::pair<std::string, std::string> packages;  ///< {"venv", "\"/home/me/venv\""}, or empty
  std::string body;                              ///< all other lines
  std::vector<std::string> left_out;             ///< lines that dlflow makes needless
  bool starts_ranks = false;                     ///< a launcher was removed from the body

  /// The value of an option; empty if the script does not have it.
  std::string option(const std::string& name) const {
    const auto found = options.find(name);
    return found == options.end() ? "" : found->second;
  }
};

BatchScript read_batch_script(const std::string& text);

/// The step that does the same. \param walltime  instead of the script's, unless empty.
/// \param inputs  files that the body reads, named by the workflow
std::string step_of_batch_script(const BatchScript& script, const std::string& name,
                                 const std::string& walltime,
                                 const std::vector<std::string>& inputs);

}  // namespace dlflow
