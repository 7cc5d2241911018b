#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/sha256.h"

/// Hashes as values. They become names of files, so any other text is refused, whatever its source.
namespace dlflow {

bool is_hash(std::string_view text, std::string_view prefix);
/// Throws Error{Corrupt} naming `source`; without one a Json::exception, whose readers add it.
[[noreturn]] void refuse_hash(std::string_view text, std::string_view form,
                              const std::string& source = "");

/// A SHA-256 of one kind, or none: the prefix of its kind and 64 lower-case hexadecimal digits. In
/// JSON it is that text, or an empty one.
template <class Kind>
class HashText {
 public:
  HashText() = default;
  /// Throws Error{Corrupt} naming `source` if `text` is not of this kind.
  HashText(std::string text, const std::string& source) : text_(std::move(text)) {
    if (!accepts(text_)) refuse_hash(text_, Kind::kForm, source);
  }
  static HashText of_hex(std::string digits) {
    return {std::move(digits.insert(0, Kind::kPrefix)), "a hash"};
  }
  /// Without a check, for plans of many jobs. `hash` cannot be updated afterwards.
  static HashText of(Sha256& hash) { return HashText(hash.hex()); }
  static bool accepts(std::string_view text) { return is_hash(text, Kind::kPrefix); }

  bool empty() const { return text_.empty(); }
  /// Empty if there is none.
  const std::string& text() const { return text_; }
  /// The 64 digits, for a path. Throws Error{Corrupt} if there is none.
  std::string hex() const { return HashText(text_, "a path").text_.substr(Kind::kPrefix.size()); }
  auto operator<=>(const HashText&) const = default;

  friend void to_json(Json& json, const HashText& hash) { json = hash.text_; }
  friend void from_json(const Json& json, HashText& hash) {
    auto text = json.get<std::string>();
    if (!text.empty() && !accepts(text)) refuse_hash(text, Kind::kForm);
    hash.text_ = std::move(text);
  }

 private:
  explicit HashText(std::string digits) : text_(std::move(digits.insert(0, Kind::kPrefix))) {}

  std::string text_;
};

struct DigestKind {
  static constexpr std::string_view kPrefix = "sha256:";
  static constexpr std::string_view kForm =
      "a digest: sha256: and 64 hexadecimal digits in lower case";
};
/// The digest of an image or of a part of one.
using Digest = HashText<DigestKind>;

}  // namespace dlflow
