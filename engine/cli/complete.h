#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/cli/session.h"

/// Completion of command lines: verbs, options, and the names of runs, jobs and the like.
namespace dlflow {

struct Candidate {
  std::string word;
  std::string text = {};  ///< for a verb or an option: its purpose
  bool operator==(const Candidate&) const = default;
};

/// The candidates for the last of `words`, which is incomplete; `words` start after `dlflow`.
/// Neither asks a cluster nor writes a file.
std::vector<Candidate> candidates(const CLI::App& app, Session& session,
                                  std::span<const std::string> words);

/// `dlflow complete bash LINE`, `dlflow complete zsh|fish WORD...`, for the completion scripts.
/// Prints one candidate per line: quoted for bash, for the others followed by a tab and its text.
/// Prints nothing after an error.
void complete(const CLI::App& app, Session& session, std::span<const std::string> arguments);

}  // namespace dlflow
