#include "runtime/compress/compressor.h"

#include "runtime/compress/sparse_message.h"

namespace dlflow::runtime {

void compress(const Compressor& compressor, const Occasion& occasion, const Unsent& unsent,
              std::span<std::byte> message) {
  compressor.encode(unsent.error, occasion, message);
  compressor.add(message, occasion, -1, unsent.error);
  if (unsent.velocity.empty()) return;
  for (const uint32_t index : sparse_view(message).indices) unsent.velocity[index] = 0;
}

}  // namespace dlflow::runtime
