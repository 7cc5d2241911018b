#include <fmt/core.h>

#include "base/error.h"
#include "base/protobuf.h"
#include "runtime/text/vocabulary.h"
#include "tests/fuzz/fuzz.h"

using namespace dlflow;
using namespace dlflow::runtime;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string content(data, data + size);
  try {
    const Vocabulary vocabulary = Vocabulary::parse(content, "input");
    DLFLOW_CHECK(vocabulary.size() <= size);
    DLFLOW_CHECK(vocabulary.end_of_text() < vocabulary.size());
    DLFLOW_CHECK(vocabulary.text_of(vocabulary.end_of_text()).empty());
    DLFLOW_CHECK(!vocabulary.has_bytes_alone());
  } catch (const Error& error) {
    DLFLOW_CHECK(error.code() == Errc::Corrupt || error.code() == Errc::InvalidInput);
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const auto piece = [](std::string_view text, uint64_t type) {
    return Message().add(1, text).add(2, -1.0f).add(3, type);
  };
  Message model;
  model.add(1, piece("<unk>", 2)).add(1, piece("<|endoftext|>", 3));
  for (int byte = 0; byte < 256; ++byte) model.add(1, piece(fmt::format("<0x{:02X}>", byte), 6));
  model.add(1, piece("\xE2\x96\x81the", 1)).add(1, piece("a", 4));
  const Message small = Message().add(1, piece("a", 1)).add(2, uint64_t(7));
  return {model.bytes(), small.bytes()};
}
