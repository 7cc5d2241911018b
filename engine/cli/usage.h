#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/error.h"

/// Mistakes in a command line, with advice on what to type instead.
namespace dlflow {

/// Options or arguments that exclude each other; the verb's own help explains them.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message) : Error(Errc::InvalidInput, message) {}
};

/// Makes all verbs of `app` refuse an option's name as the value of another option: `--set
/// --profile beta` lacks the value of --set. Must be called after all verbs are added.
void refuse_options_as_values(CLI::App& app);

/// Replaces a verb of the previous version in `words` by its current name, with a note on standard
/// error.
std::vector<std::string> with_new_verb(std::vector<std::string> words);

/// The verb that `app` had reached when it stopped parsing the command line.
const CLI::App& chosen_command(const CLI::App& app);

/// "there is no command 'dlflow rnu'; did you mean 'run'?"
std::string no_such_verb(const CLI::App& command, const std::string& word);

/// Describes the mistake for which `app` refused the command line with `error`; empty if only a
/// verb is missing, in which case help is shown.
std::string mistake_in(const CLI::App& app, const CLI::ParseError& error);

/// "Try `dlflow run --help`."
std::string help_hint(const CLI::App& command);

}  // namespace dlflow
