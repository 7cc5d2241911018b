#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

#include "base/protobuf.h"

namespace dlflow::test {

inline Message tokenizer_piece(std::string_view text, uint64_t type) {
  return Message().add(1, text).add(2, -1.5f).add(3, type);
}

/// A tokenizer in SentencePiece's format, with `bytes` of the 256 bytes.
inline std::string sample_tokenizer(int bytes = 256, std::string_view end = "<|endoftext|>",
                                    uint64_t type_of_end = 3,
                                    const std::string& byte_65 = "<0x41>") {
  Message model;
  model.add(1, tokenizer_piece("<unk>", 2));
  model.add(1, tokenizer_piece(end, type_of_end));
  for (int byte = 0; byte < bytes; ++byte) {
    model.add(1, tokenizer_piece(byte == 65 ? byte_65 : fmt::format("<0x{:02X}>", byte), 6));
  }
  model.add(1, Message().add(1, std::string_view("\xE2\x96\x81the")).add(2, 0.0f));
  model.add(1, tokenizer_piece("a\xE2\x96\x81\xE2\x96\x81z", 4));
  return model.add(2, Message().add(4, uint64_t(260))).bytes();
}

}  // namespace dlflow::test
