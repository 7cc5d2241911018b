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

/// The verb `name` of `command`, also one for dlflow's own use; null if there is none.
const CLI::App* find_verb(const CLI::App& command, const std::string& name);

/// The options and arguments of `command` and of its parents.
std::vector<const CLI::Option*> all_options(const CLI::App& command);

/// The option `name` of `command` or of a parent, such as "--set"; null if there is none.
const CLI::Option* find_option(const CLI::App& command, const std::string& name);

/// Whether an option or argument takes any number of values.
bool may_be_repeated(const CLI::Option& option);

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
