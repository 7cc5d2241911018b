#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/error.h"

/// Mistakes in a command line, in words that say what to type instead.
namespace dlflow {

/// Options or arguments that do not go together; the verb's own help says which do.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message) : Error(Errc::InvalidInput, message) {}
};

/// Refuses, in all verbs of `app`, an option's name where another option's value is due: of
/// `--set --profile beta` the value of --set was forgotten. Call it once all verbs are there.
void refuse_options_as_values(CLI::App& app);

/// `words` of a command line with today's verb in the place of one of the version before, which
/// standard error is told.
std::vector<std::string> with_new_verb(std::vector<std::string> words);

/// The verb that a command line has come to, once `app` has read it as far as it could.
const CLI::App& chosen_command(const CLI::App& app);

/// "there is no command 'dlflow rnu'; did you mean 'run'?"
std::string no_such_verb(const CLI::App& command, const std::string& word);

/// What is wrong with the command line that `app` refused with `error`; empty if it only lacks a
/// verb, so that help is what is wanted.
std::string mistake_in(const CLI::App& app, const CLI::ParseError& error);

/// "Try `dlflow run --help`."
std::string help_hint(const CLI::App& command);

}  // namespace dlflow
