#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dlflow::fake_slurm {

/// An option of a command, as getopt_long knows it.
struct Option {
  const char* name;  ///< long
  char letter;       ///< short; 0: none
  int argument;      ///< no_argument, required_argument, optional_argument
};

struct Words {
  std::vector<std::pair<std::string, std::string>> options;  ///< long name, value ("" if none)
  std::vector<std::string> rest;

  /// The last value given, or nothing.
  const std::string* find(const std::string& name) const;
  bool has(const std::string& name) const { return find(name) != nullptr; }
};

/// Reads a command line as SLURM does, with getopt_long: abbreviations, bundles, permutation. A
/// mistake is reported by it on standard error and is no Words. `stop`: at the first word that is
/// no option, as sbatch does.
std::optional<Words> parse_words(const std::vector<std::string>& argv,
                                 std::span<const Option> options, bool stop = false);

}  // namespace dlflow::fake_slurm
