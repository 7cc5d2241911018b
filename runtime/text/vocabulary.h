#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// The tokens that a language model reads and writes, and the text that each stands for.
namespace dlflow::runtime {

/// The file of the tokenizer that made the tokens, beside the data that has them.
constexpr const char* kTokenizerFile = "tokenizer.model";

/// What stands between two documents, if a text says so itself: a line of its own.
constexpr std::string_view kEndOfText = "<|endoftext|>";

/// The text of each token. docs/user/data-format.md says how both kinds number theirs.
class Vocabulary {
 public:
  /// Tokens are bytes; byte 0, which no text has, ends a document.
  static Vocabulary bytes();

  /// Of a model file of SentencePiece. Throws Error{Corrupt}, "`name`: reason", if it is damaged;
  /// InvalidInput if it is of another library, has no token for each byte, or none that ends a
  /// document.
  static Vocabulary parse(std::string_view content, const std::string& name);

  size_t size() const { return pieces_.size(); }
  uint32_t end_of_text() const { return end_of_text_; }

  /// It is known by this: the first 32 digits of the SHA-256 of its file; of bytes, of the word
  /// "bytes".
  const std::string& id() const { return id_; }
  bool has_bytes_alone() const { return size() == 256; }  // others have an end of text beside these

  /// The bytes of a token below size(); none of those that end a document.
  std::string_view text_of(uint32_t token) const { return pieces_[token]; }

 private:
  std::vector<std::string> pieces_;
  uint32_t end_of_text_ = 0;
  std::string id_;
};

}  // namespace dlflow::runtime
