#pragma once

#include "runtime/collectives/link.h"
#include "runtime/comm/values.h"

namespace dlflow::runtime {

/// Sends `sent` to rank `to` and adds the values from rank `from` to `into`: the basic step of all
/// sums. Either may be empty, and both may be the same memory. `link` outlives the task.
///
/// The messages hold at most 256 KiB; the next ones travel while one is added, so that received
/// data is still in the cache. Needs at most 2 MiB of scratch memory, however large the sum is.
Task exchange_and_add(const Link& link, Values sent, int to, Values into, int from);

}  // namespace dlflow::runtime
