#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

/// The help of verbs, within 80 columns, made from the definition of the command line.
namespace dlflow {

/// "dlflow profile check": the words that lead to `command`.
std::string command_words(const CLI::App& command);

/// The verbs of `command` in order, without those for dlflow's own use.
std::vector<const CLI::App*> shown_verbs(const CLI::App& command);

/// The words that an option or argument accepts, if they are fixed; otherwise empty.
std::vector<std::string> choices_of(const CLI::Option& option);

/// The placeholder of an option's value or of an argument: "KEY=VALUE", "bash|zsh|fish"; empty for
/// a flag.
std::string value_word(const CLI::Option& option);

/// The longest name of an option with its dashes, or an argument's word in capitals.
std::string option_word(const CLI::Option& option);

/// Sets the format of the help of `app` and of verbs that are added later.
void use_help_format(CLI::App& app);

}  // namespace dlflow
