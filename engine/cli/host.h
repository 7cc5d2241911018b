#pragma once

#include <CLI/CLI.hpp>

#include "engine/cli/session.h"

/// `--host user@login`: runs a verb on the login node of a cluster from another machine, over ssh.
/// The remote machine needs only this program, which is copied there once per version.
namespace dlflow {

/// Adds `--host` and `--send` to `app`. With `--host`, or the host in $DLFLOW_HOST, the parsed
/// command line runs there, with this terminal: its verb's callback is replaced by one that sends
/// this program and the files that the verb reads, as far as they are missing there. Its exit
/// status is that of the verb there. It throws Error: Unavailable if ssh cannot reach the host,
/// InvalidInput for verbs that are only about this machine.
void add_host_options(CLI::App& app, Session& session);

}  // namespace dlflow
