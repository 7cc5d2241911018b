#pragma once

#include <optional>
#include <string>
#include <vector>

/// The help of a step program, from which `--help` and its man page are made.
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
  std::string settings;              ///< which keys with.json has, and where they are documented
  std::string example;               ///< a with.json
  std::vector<HelpEntry> variables;  ///< the environment, and what holds without it
  std::vector<HelpEntry> exit_status;
};

std::string help_text(const ProgramHelp& help);

/// In roff, for man(1).
std::string man_page(const ProgramHelp& help);

/// What standard output gets for `--help`, and for `--man-page`, by which the build makes the page;
/// nothing for other arguments.
std::optional<std::string> asked_help(const ProgramHelp& help, int argc, char** argv);

}  // namespace dlflow::steps
