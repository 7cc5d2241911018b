#pragma once

#include <optional>
#include <string>
#include <vector>

/// The help of a step program, used for `--help` and its man page.
namespace dlflow::steps {

/// A command, a variable or an exit status, and its meaning.
struct HelpEntry {
  std::string name;
  std::string meaning;
};

struct ProgramHelp {
  std::string name;     ///< of the program
  std::string summary;  ///< one sentence
  std::vector<HelpEntry> commands;
  std::string settings;              ///< the keys of with.json, and where they are documented
  std::string example;               ///< a with.json
  std::vector<HelpEntry> variables;  ///< environment variables and their defaults
  std::vector<HelpEntry> exit_status;
};

std::string help_text(const ProgramHelp& help);

/// The page in roff, for man(1).
std::string man_page(const ProgramHelp& help);

/// The output for `--help`, and for `--man-page`, which the build uses to create the man page;
/// nothing for other arguments.
std::optional<std::string> asked_help(const ProgramHelp& help, int argc, char** argv);

}  // namespace dlflow::steps
