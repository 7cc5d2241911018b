#pragma once

#include <cstddef>
#include <cstdint>

/// The messages between workers and parameter servers. After each step a worker sends every server
/// a Push and the gradient of its shard, and gets a Pull and the shard's weights.
namespace dlflow::runtime {

struct Push {
  double rate = 0;       ///< OwnStep::rate
  uint32_t is_last = 0;  ///< 1: the worker goes to the meeting after this step
  uint32_t calls_for_meeting = 0;
};

struct Pull {
  uint64_t meeting = 0;  ///< step of the run after which the ranks meet; the first server's counts
};

/// Weights [first, first + count), which one server holds.
struct WeightRange {
  size_t first = 0;
  size_t count = 0;
};

/// The range of server `server`: servers share the weights evenly, in whole cache lines.
WeightRange weights_of_server(size_t num_weights, size_t server, size_t num_servers);

}  // namespace dlflow::runtime
