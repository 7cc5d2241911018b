#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace dlflow::fake_slurm {

struct Words {
  std::vector<std::pair<std::string, std::string>> options;  ///< name, value ("" if none)
  std::vector<std::string> rest;

  /// The last value given, or nothing.
  const std::string* find(const std::string& name) const {
    for (auto option = options.rbegin(); option != options.rend(); ++option) {
      if (option->first == name) return &option->second;
    }
    return nullptr;
  }
  bool has(const std::string& name) const { return find(name) != nullptr; }
};

/// Parses `--name` and `--name=value` after the command's name, in the form in which dlflow writes
/// options. Returns nothing for a name that is not in `known`; `err` is the command's message.
inline std::optional<Words> parse_words(const std::vector<std::string>& argv,
                                        const std::set<std::string>& known, std::string& err) {
  Words words;
  for (size_t i = 1; i < argv.size(); ++i) {
    if (!argv[i].starts_with("--")) {
      words.rest.push_back(argv[i]);
      continue;
    }
    const size_t equals = argv[i].find('=');
    const std::string name = argv[i].substr(0, equals);
    if (!known.contains(name.substr(2))) {
      err += argv[0] + ": unrecognized option '" + name + "'\nTry \"" + argv[0] +
             " --help\" for more information\n";
      return std::nullopt;
    }
    words.options.emplace_back(name.substr(2),
                               equals == name.npos ? "" : argv[i].substr(equals + 1));
  }
  return words;
}

}  // namespace dlflow::fake_slurm
