#pragma once

#include <string>

#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// `text` of rank `root`, on every rank. Collective.
std::string broadcast_text(Communicator& comm, std::string text, int root = 0);

}  // namespace dlflow::runtime
