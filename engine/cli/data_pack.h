#pragma once

#include "engine/cli/session.h"

namespace dlflow {

/// `dlflow data pack`, a verb of `data`.
void add_pack_of_data(CLI::App& data, Session& session);

}  // namespace dlflow
