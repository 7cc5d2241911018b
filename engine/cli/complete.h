#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/cli/session.h"

/// The words that can stand next in a command line: verbs, options, and the names of what there is.
namespace dlflow {

struct Candidate {
  std::string word;
  std::string text = {};  ///< of a verb or an option: what it is for
  bool operator==(const Candidate&) const = default;
};

/// The candidates for the last of `words`, which follow `dlflow` and of which the last is still
/// typed. No cluster is asked, and no file is written.
std::vector<Candidate> candidates(const CLI::App& app, Session& session,
                                  std::span<const std::string> words);

/// The place in `words`, which follow `dlflow`, of the first argument of the verb; nothing if it
/// has none.
std::optional<size_t> place_of_argument(const CLI::App& app, std::span<const std::string> words);

/// `dlflow complete bash LINE`, `dlflow complete zsh|fish WORD...`: what the completion scripts
/// call. Prints a candidate a line: for bash quoted as its line needs it, for the others with its
/// text behind a tab. A mistake offers nothing.
int complete(const CLI::App& app, Session& session, std::span<const std::string> arguments);

}  // namespace dlflow
