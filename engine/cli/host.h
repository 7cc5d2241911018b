#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/cli/session.h"

/// `--host user@login`: a verb on the login node of a cluster, typed on another machine. Over ssh,
/// with nothing there but this program, which is copied there once per version.
namespace dlflow {

/// Adds `--host` to a verb that can be done elsewhere.
void add_host_option(CLI::App& command);

struct HostRequest {
  std::string host;
  std::vector<std::string> words;  ///< of the command line, without `--host`
};

/// What `words` (which follow `dlflow`) ask for, if they say `--host`. Throws UsageError for a name
/// that is none.
std::optional<HostRequest> host_request(std::span<const std::string> words);

/// Sends what the verb needs: this program, a workflow as a bundle, the profile if it is a file
/// here. Then runs the verb there, with this terminal. Its exit status. Throws Error: Unavailable
/// if ssh cannot reach the host, InvalidInput for verbs that are not done elsewhere.
int run_on_host(const CLI::App& app, Session& session, const HostRequest& request);

}  // namespace dlflow
