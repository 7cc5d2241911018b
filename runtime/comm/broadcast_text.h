#pragma once

#include <string>

#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// `text` of rank 0, on every rank. Collective.
std::string broadcast_text(Communicator& comm, std::string text);

}  // namespace dlflow::runtime
