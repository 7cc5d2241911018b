#pragma once

#include <span>

#include "runtime/collectives/link.h"

namespace dlflow::runtime {

/// Copies `bytes` of rank `root` to every rank, along a binomial tree. Collective: every rank
/// starts it in the same order with the same size and root.
///
/// Cost for P ranks and n bytes, with a seconds per message, b per byte sent: lg P (a + n b).
Task broadcast(Link link, std::span<std::byte> bytes, int root);

}  // namespace dlflow::runtime
