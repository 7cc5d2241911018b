#include "runtime/text/vocabulary.h"

#include <charconv>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/protobuf_reader.h"
#include "base/sha256.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kIdDigits = 32;
constexpr uint32_t kBytes = 256;
constexpr size_t kMostPieces = size_t{1} << 22;      // labels of data sets stay below it
constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581, SentencePiece's space

[[noreturn]] void fail(const std::string& name) {
  throw Error(Errc::Corrupt,
              name + ": is not a tokenizer of SentencePiece, or damaged; copy it again");
}

/// A piece in SentencePiece's ModelProto.
struct Piece {
  static constexpr uint64_t kPieces = 1, kText = 1, kType = 3;
  static constexpr uint64_t kNormal = 1, kControl = 3, kUserDefined = 4, kByte = 6;
  std::string_view text;
  uint64_t type = kNormal;
};

/// Throws Error{Corrupt} without the file's name.
Piece read_piece(std::string_view bytes) {
  Piece piece;
  MessageReader fields(bytes);
  while (const auto field = fields.next()) {
    if (field->number == Piece::kText) piece.text = field->bytes;
    if (field->number == Piece::kType) piece.type = field->value;
  }
  return piece;
}

/// Reads all pieces of a file. Throws Error{Corrupt}.
std::vector<Piece> read_pieces(std::string_view content, const std::string& name) {
  std::vector<Piece> pieces;
  try {
    MessageReader fields(content);
    while (const auto field = fields.next()) {
      if (field->number != Piece::kPieces) continue;
      if (pieces.size() == kMostPieces) fail(name);
      pieces.push_back(read_piece(field->bytes));
    }
  } catch (const Error&) {
    fail(name);
  }
  return pieces;
}

/// The value of "<0x0A>", or nothing.
std::optional<uint32_t> byte_of(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || !text.ends_with('>')) return std::nullopt;
  uint32_t value = 0;
  const char* const end = text.data() + 5;
  if (std::from_chars(text.data() + 3, end, value, 16).ptr != end) return std::nullopt;
  return value;
}

std::string with_spaces(std::string_view piece) {
  std::string text;
  for (size_t i = 0; i < piece.size();) {
    const bool space = piece.substr(i).starts_with(kSpace);
    text += space ? ' ' : piece[i];
    i += space ? kSpace.size() : 1;
  }
  return text;
}

[[noreturn]] void refuse(const std::string& name, const std::string& reason) {
  throw Error(Errc::InvalidInput,
              name + ": " + reason + "; docs/user/data-format.md#text shows how to train one");
}

}  // namespace

Vocabulary Vocabulary::bytes() {
  Vocabulary vocabulary;
  for (uint32_t byte = 0; byte < kBytes; ++byte) vocabulary.pieces_.emplace_back(1, char(byte));
  vocabulary.pieces_[0].clear();
  vocabulary.id_ = sha256_hex("bytes").substr(0, kIdDigits);
  return vocabulary;
}

Vocabulary Vocabulary::parse(std::string_view content, const std::string& name) {
  if (content.starts_with('{')) {
    refuse(name,
           "is JSON, as the package tokenizers writes, but dlflow reads models of SentencePiece");
  }
  Vocabulary vocabulary;
  std::optional<uint32_t> end;
  uint32_t num_bytes = 0;
  for (const Piece& piece : read_pieces(content, name)) {
    const auto token = uint32_t(vocabulary.pieces_.size());
    std::string text;
    if (piece.type == Piece::kNormal || piece.type == Piece::kUserDefined) {
      text = with_spaces(piece.text);
    } else if (piece.type == Piece::kByte) {
      if (byte_of(piece.text) != num_bytes) fail(name);
      text = std::string(1, char(num_bytes++));
    } else if (piece.type == Piece::kControl &&
               (piece.text == kEndOfText || piece.text == "</s>")) {
      end = token;
    }
    vocabulary.pieces_.push_back(std::move(text));
  }
  if (vocabulary.pieces_.empty()) fail(name);
  if (num_bytes != kBytes) refuse(name, "has no token for each byte, so it would lose some texts");
  if (!end) refuse(name, "has no token that ends a document, <|endoftext|> or </s>");
  vocabulary.end_of_text_ = *end;
  vocabulary.id_ = sha256_hex(content).substr(0, kIdDigits);
  return vocabulary;
}

}  // namespace dlflow::runtime
