#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/cli/session.h"

/// `--host user@login`: runs a verb on the login node of a cluster from another machine, over ssh.
/// The remote machine needs only this program, which is copied there once per version.
namespace dlflow {

/// Adds `--host` to a verb that can run on another machine.
void add_host_option(CLI::App& command);

struct HostRequest {
  std::string host;
  std::vector<std::string> words;  ///< of the command line, without `--host`
};

/// Returns the request in `words` (after `dlflow`), if they contain `--host`. Throws UsageError for
/// an invalid host name.
std::optional<HostRequest> host_request(std::span<const std::string> words);

/// Sends this program, a workflow as a bundle and the profile if it is a local file, as far as the
/// verb needs them. Then runs the verb there, with this terminal, and returns its exit status.
/// Throws Error: Unavailable if ssh cannot reach the host, InvalidInput for other verbs.
int run_on_host(const CLI::App& app, Session& session, const HostRequest& request);

}  // namespace dlflow
