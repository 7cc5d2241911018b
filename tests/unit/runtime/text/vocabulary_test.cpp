#include "runtime/text/vocabulary.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/protobuf.h"
#include "base/sha256.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

Message piece(std::string_view text, uint64_t type) {
  return Message().add(1, text).add(2, -1.5f).add(3, type);
}

/// As SentencePiece writes one, with `bytes` of the 256 bytes.
std::string tokenizer(int bytes = 256, bool end = true) {
  Message model;
  model.add(1, piece("<unk>", 2)).add(1, piece(end ? "<|endoftext|>" : "<pad>", 3));
  for (int byte = 0; byte < bytes; ++byte) model.add(1, piece(fmt::format("<0x{:02X}>", byte), 6));
  model.add(1, Message().add(1, std::string_view("\xE2\x96\x81the")).add(2, 0.0f));
  model.add(1, piece("a\xE2\x96\x81\xE2\x96\x81z", 4));
  return model.add(2, Message().add(4, uint64_t(260))).bytes();
}

}  // namespace

TEST_CASE("bytes are tokens, and byte 0 ends a document", "[vocabulary]") {
  const Vocabulary bytes = Vocabulary::bytes();
  CHECK(bytes.size() == 256);
  CHECK(bytes.end_of_text() == 0);
  CHECK(bytes.token_of('a') == 97);
  CHECK(bytes.decode(std::vector<uint32_t>{104, 105, 0, 255}) == "hi\xff");
  CHECK(bytes.id() == sha256_hex("bytes").substr(0, 32));
}

TEST_CASE("the pieces of a tokenizer's file become text again", "[vocabulary]") {
  const Vocabulary vocabulary = Vocabulary::parse(tokenizer(), "t");
  CHECK(vocabulary.size() == 260);
  CHECK(vocabulary.end_of_text() == 1);
  CHECK(vocabulary.token_of('\n') == 12);
  CHECK(vocabulary.decode(std::vector<uint32_t>{258, 12, 259, 1, 0}) == " the\na  z");
  CHECK(vocabulary.id() == sha256_hex(tokenizer()).substr(0, 32));
  CHECK(!vocabulary.has_bytes_alone());
}

TEST_CASE("a file that is no tokenizer, or loses text, is refused", "[vocabulary]") {
  CHECK_THROWS_WITH(Vocabulary::parse("", "t"), Catch::Contains("t: is not a tokenizer"));
  CHECK_THROWS_WITH(Vocabulary::parse("hello", "t"), Catch::Contains("t: is not a tokenizer"));
  const std::string whole = tokenizer();
  for (size_t size = 1; size < whole.size(); size += 7) {
    CHECK_THROWS_AS(Vocabulary::parse(whole.substr(0, size), "t"), Error);
  }
  CHECK_THROWS_WITH(Vocabulary::parse(tokenizer(255), "t"),
                    Catch::Contains("has no token for each byte"));
  CHECK_THROWS_WITH(Vocabulary::parse(tokenizer(256, false), "t"),
                    Catch::Contains("no token that ends a document"));
}
