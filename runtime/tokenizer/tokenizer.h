#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/vocabulary.h"

/// Byte-pair encoding, by SentencePiece: https://github.com/google/sentencepiece.
namespace dlflow::runtime {

/// Finds the byte pairs of `documents` for a vocabulary of `size` tokens: one for unknown text that
/// is never used, one that ends a document, 256 for bytes, then pieces of text, none with a line
/// end in it. Text is taken as it is: no normalisation, no spaces added or removed. The same
/// documents give the same file, byte for byte.
/// Returns the content of its file. Throws Error{InvalidInput} if there is less text than the
/// vocabulary needs, or more characters than it has room for, saying the largest or smallest size.
std::string train_tokenizer(std::span<const std::string_view> documents, uint32_t size);

/// Texts to tokens.
class Tokenizer {
 public:
  /// `content` of a tokenizer's file, called `name`; or bytes, if it is empty.
  /// Throws Error as Vocabulary::parse, and if SentencePiece cannot read it.
  Tokenizer(std::string_view content, const std::string& name);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;

  const Vocabulary& vocabulary() const { return vocabulary_; }

  /// The tokens of `text`, which stand for it byte by byte. \param text  UTF-8
  /// Throws Error{InvalidInput} if the tokenizer is one that changes texts.
  std::vector<uint32_t> encode(std::string_view text) const;

 private:
  struct Pieces;
  void encode_line(std::string_view line, std::vector<uint32_t>& tokens) const;

  std::string name_;
  Vocabulary vocabulary_;
  std::unique_ptr<Pieces> pieces_;  // null: bytes
};

}  // namespace dlflow::runtime
