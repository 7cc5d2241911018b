#include "base/random.h"

namespace dlflow {

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t(0xD2511F53) * counter[0];
    const uint64_t product1 = uint64_t(0xCD9E8D57) * counter[2];
    counter = {uint32_t(product1 >> 32) ^ counter[1] ^ key[0], uint32_t(product1),
               uint32_t(product0 >> 32) ^ counter[3] ^ key[1], uint32_t(product0)};
    key[0] += 0x9E3779B9;  // the golden ratio
    key[1] += 0xBB67AE85;  // sqrt(3) - 1
  }
  return counter;
}

uint32_t RandomStream::next() {
  if (used_ == block_.size()) {
    block_ = philox(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[used_++];
}

uint32_t RandomStream::below(uint32_t bound) {
  uint64_t product = uint64_t(next()) * bound;
  if (uint32_t(product) < bound) {
    const uint32_t threshold = -bound % bound;  // rejects 2^32 mod bound products to avoid bias
    while (uint32_t(product) < threshold) product = uint64_t(next()) * bound;
  }
  return uint32_t(product >> 32);
}

}  // namespace dlflow
