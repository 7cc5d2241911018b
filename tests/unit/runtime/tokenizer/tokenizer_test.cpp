#include "runtime/tokenizer/tokenizer.h"

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

constexpr std::string_view kText =
    "She sells sea shells by the sea shore.\nThe shells that she sells are sea shells for sure.\n"
    "  So if she sells shells on the sea shore,\n\tthen I am sure she sells sea shore shells.";

/// A tokenizer of kText; nothing, and the case is skipped, without SentencePiece.
std::string trained(uint32_t size = 300) {
  const std::string_view documents[] = {kText, "", "\n"};
  try {
    return train_tokenizer(documents, size);
  } catch (const Error& error) {
    if (std::string(error.what()).find("without SentencePiece") == std::string::npos) throw;
    test::skip(error.what());
    return {};
  }
}

}  // namespace

TEST_CASE("any text comes back from its tokens, byte by byte", "[tokenizer]") {
  const std::string content = trained();
  if (content.empty()) return;
  const Tokenizer tokenizer(content, "t");
  CHECK(tokenizer.vocabulary().size() == 300);
  for (const std::string& text :
       {std::string(kText), std::string("  two  spaces \t\r\n\n\n"), std::string("\n"),
        std::string("caf\u00e9 \u4f60\u597d \U0001F600 e\u0301"),
        std::string("\u2581 \u2581\u2581x\u2585"), std::string("<|endoftext|> <unk> <0x0A> </s>"),
        std::string("\x01\x7f"), std::string(5000, 's')}) {
    const std::vector<uint32_t> tokens = tokenizer.encode(text);
    CHECK(tokenizer.vocabulary().decode(tokens) == text);
    for (const uint32_t token : tokens) CHECK(token > 1);  // neither unknown nor an end
  }
  CHECK(tokenizer.encode(kText).size() < kText.size() / 2);
  CHECK(tokenizer.encode("").empty());
}

TEST_CASE("the same text makes the same tokenizer", "[tokenizer]") {
  const std::string content = trained();
  if (content.empty()) return;
  CHECK(trained() == content);
  CHECK(trained(301) != content);
  CHECK(content.find("/tmp") == std::string::npos);
}

TEST_CASE("a vocabulary that the text does not allow is refused with one that it does",
          "[tokenizer]") {
  if (trained().empty()) return;
  CHECK_THROWS_WITH(trained(5000),
                    Catch::Contains("a vocabulary of 5000 tokens: the text has pairs "
                                    "for 3"));
  CHECK_THROWS_WITH(trained(260), Catch::Contains("bytes and the characters of the text need 2"));
  const std::string_view nothing[] = {"\n\n"};
  CHECK_THROWS_WITH(train_tokenizer(nothing, 300), Catch::Contains("nothing but line ends"));
}

TEST_CASE("bytes need no file", "[tokenizer]") {
  const Tokenizer bytes("", "");
  CHECK(bytes.encode("hi\xff") == std::vector<uint32_t>{104, 105, 255});
  CHECK(bytes.vocabulary().has_bytes_alone());
}

TEST_CASE("a damaged tokenizer is refused", "[tokenizer]") {
  const std::string content = trained();
  if (content.empty()) return;
  CHECK_THROWS_AS(Tokenizer(content.substr(0, content.size() / 2), "t"), Error);
}
