#include "runtime/comm/broadcast_text.h"

#include <cstdint>
#include <span>

namespace dlflow::runtime {

std::string broadcast_text(Communicator& comm, std::string text) {
  uint64_t size = text.size();
  comm.broadcast(std::as_writable_bytes(std::span(&size, 1)), 0);
  text.resize(size);
  comm.broadcast(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

}  // namespace dlflow::runtime
