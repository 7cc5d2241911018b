#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// The tokens that a language model reads and writes, and the text of each.
namespace dlflow::runtime {

/// The file of the tokenizer that made the tokens, in the same folder.
constexpr const char* kTokenizerFile = "tokenizer.model";

/// The line that separates two documents within a text.
constexpr std::string_view kEndOfText = "<|endoftext|>";

/// The text of each token. docs/user/data-format.md defines the numbering of both kinds.
class Vocabulary {
 public:
  /// Tokens are bytes; byte 0, which never occurs in text, ends a document.
  static Vocabulary bytes();

  /// Parses a SentencePiece model file. Throws Error{Corrupt}, "`name`: reason", if it is damaged;
  /// InvalidInput if it belongs to another library, or lacks a token for some byte or for the end
  /// of documents.
  static Vocabulary parse(std::string_view content, const std::string& name);

  size_t size() const { return pieces_.size(); }
  uint32_t end_of_text() const { return end_of_text_; }

  /// The first 32 digits of the SHA-256 of the tokenizer's file; for bytes, of the word "bytes".
  const std::string& id() const { return id_; }
  bool has_bytes_alone() const { return size() == 256; }  // others add an end-of-text token

  /// The bytes of a token below size(); empty for a token that ends a document.
  std::string_view text_of(uint32_t token) const { return pieces_[token]; }

 private:
  std::vector<std::string> pieces_;
  uint32_t end_of_text_ = 0;
  std::string id_;
};

}  // namespace dlflow::runtime
