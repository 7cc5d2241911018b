#pragma once

#include "engine/cli/session.h"

/// The nodes of clusters where jobs were lost: `dlflow status --nodes`, `--forgive NODE`.
namespace dlflow {

void show_lost_nodes(Session& session);

/// Forgets the jobs that were lost on it so far. Throws Error{NotFound} if none was.
void forgive_node(Session& session, const std::string& name);

}  // namespace dlflow
