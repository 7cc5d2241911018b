#include "runtime/text/vocabulary.h"

#include "base/error.h"
#include "base/sha256.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/text/sample_tokenizer.h"

using namespace dlflow;
using namespace dlflow::runtime;

TEST_CASE("bytes are tokens, and byte 0 ends a document", "[vocabulary]") {
  const Vocabulary bytes = Vocabulary::bytes();
  CHECK(bytes.size() == 256);
  CHECK(bytes.end_of_text() == 0);
  CHECK(bytes.text_of('a') == "a");
  CHECK(bytes.text_of(255) == "\xff");
  CHECK(bytes.text_of(0).empty());
  CHECK(bytes.id() == sha256_hex("bytes").substr(0, 32));
}

TEST_CASE("the pieces of a tokenizer's file become text again", "[vocabulary]") {
  const Vocabulary vocabulary = Vocabulary::parse(test::sample_tokenizer(), "t");
  CHECK(vocabulary.size() == 260);
  CHECK(vocabulary.end_of_text() == 1);
  std::string text;
  for (const uint32_t token : {258, 12, 259, 1, 0}) text += vocabulary.text_of(token);
  CHECK(text == " the\na  z");
  CHECK(vocabulary.id() == sha256_hex(test::sample_tokenizer()).substr(0, 32));
  CHECK(!vocabulary.has_bytes_alone());
}

TEST_CASE("a file that is not a tokenizer, or loses text, is refused", "[vocabulary]") {
  CHECK_THROWS_WITH(Vocabulary::parse("", "t"), Catch::Contains("t: is not a tokenizer"));
  CHECK_THROWS_WITH(Vocabulary::parse("hello", "t"), Catch::Contains("t: is not a tokenizer"));
  CHECK_THROWS_WITH(Vocabulary::parse("{\"model\": 1}", "t"), Catch::Contains("t: is JSON"));
  const std::string whole = test::sample_tokenizer();
  for (size_t size = 1; size < whole.size(); size += 7) {
    CHECK_THROWS_AS(Vocabulary::parse(whole.substr(0, size), "t"), Error);
  }
  CHECK_THROWS_WITH(Vocabulary::parse(test::sample_tokenizer(255), "t"),
                    Catch::Contains("has no token for each byte"));
  CHECK_THROWS_WITH(Vocabulary::parse(test::sample_tokenizer(256, "<pad>"), "t"),
                    Catch::Contains("no token that ends a document"));
  CHECK_THROWS_WITH(Vocabulary::parse(test::sample_tokenizer(256, "</s>", 5), "t"),
                    Catch::Contains("no token that ends a document"));  // an unused piece
  CHECK(Vocabulary::parse(test::sample_tokenizer(256, "</s>"), "t").end_of_text() == 1);
  for (const char* no_byte : {"[0x41>", "<1x41>", "<0y41>", "<0xZ1>", "<0x4Z>", "<0x41)"}) {
    std::string other = whole;
    CHECK_THROWS_WITH(Vocabulary::parse(other.replace(other.find("<0x41>"), 6, no_byte), "t"),
                      Catch::Contains("t: is not a tokenizer"));
  }
  for (const char* other_length : {"", "<0x", "<0x41", "<0x41>>", "<0x41 >", "<0x041>"}) {
    CHECK_THROWS_WITH(
        Vocabulary::parse(test::sample_tokenizer(256, "<|endoftext|>", 3, other_length), "t"),
        Catch::Contains("t: is not a tokenizer"));
  }
  std::string mixed_up = whole;
  std::swap(mixed_up[mixed_up.find("<0x41>") + 4], mixed_up[mixed_up.find("<0x42>") + 4]);
  CHECK_THROWS_WITH(Vocabulary::parse(mixed_up, "t"), Catch::Contains("t: is not a tokenizer"));
}
