#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

/// The help of verbs, within 80 columns, made from the command line itself.
namespace dlflow {

/// "dlflow profile check": what is typed to get to `command`.
std::string command_words(const CLI::App& command);

/// The verbs of `command` for people, in their order; those for dlflow's own use are left out.
std::vector<const CLI::App*> shown_verbs(const CLI::App& command);

/// The words that an option or argument takes, if these are fixed; else empty.
std::vector<std::string> choices_of(const CLI::Option& option);

/// What stands for an option's value, or for an argument: "KEY=VALUE", "bash|zsh|fish"; empty for a
/// flag.
std::string value_word(const CLI::Option& option);

/// The longest name of an option with its dashes; of an argument its word in capitals.
std::string option_word(const CLI::Option& option);

/// Formats help for `app` and the verbs that are added later.
void use_help_format(CLI::App& app);

}  // namespace dlflow
