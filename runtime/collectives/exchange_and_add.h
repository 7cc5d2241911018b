#pragma once

#include "runtime/collectives/link.h"
#include "runtime/comm/values.h"

namespace dlflow::runtime {

/// Sends `sent` to rank `to` and adds what rank `from` sends to `into`: the step that all sums over
/// messages repeat. Either may be empty, and both may be the same memory. `link` outlives the task.
///
/// In messages of at most 256 KiB, others on their way while one is added, so that what was
/// received is still in the cache; at most 2 MiB of scratch memory, however large the sum is.
Task exchange_and_add(const Link& link, Values sent, int to, Values into, int from);

}  // namespace dlflow::runtime
