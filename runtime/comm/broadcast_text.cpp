#include "runtime/comm/broadcast_text.h"

#include <cstdint>
#include <span>

namespace dlflow::runtime {

std::string broadcast_text(Communicator& comm, std::string text, int root) {
  uint64_t size = text.size();
  comm.broadcast(std::as_writable_bytes(std::span(&size, 1)), root);
  text.resize(size);
  comm.broadcast(std::as_writable_bytes(std::span(text)), root);
  return text;
}

}  // namespace dlflow::runtime
