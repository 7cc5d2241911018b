#include "runtime/comm/messages.h"

#include <fmt/core.h>

#include "base/error.h"

namespace dlflow::runtime {

void throw_no_answer(int rank, int peer, std::chrono::milliseconds waited) {
  throw Error(Errc::Unavailable,
              fmt::format("rank {}: {} did not answer within {:g} s; see that rank's own "
                          "messages and whether its node is up",
                          rank, peer < 0 ? "some rank" : fmt::format("rank {}", peer),
                          double(waited.count()) / 1000));
}

void throw_size_mismatch(int rank, int from, size_t expected, size_t received) {
  throw Error(Errc::InvalidInput,
              fmt::format("rank {} expected {} bytes from rank {} and got {}; start all ranks from "
                          "the same program, model and options",
                          rank, expected, from, received));
}

}  // namespace dlflow::runtime
