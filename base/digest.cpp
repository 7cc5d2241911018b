#include "base/digest.h"

#include "base/error.h"
#include "base/text.h"

namespace dlflow {
namespace {

constexpr std::string_view kPrefix = "sha256:";
constexpr size_t kNumDigits = 64;

}  // namespace

bool is_digest(std::string_view text) {
  return text.size() == kPrefix.size() + kNumDigits && text.starts_with(kPrefix) &&
         text.find_first_not_of("0123456789abcdef", kPrefix.size()) == text.npos;
}

std::string checked_digest(std::string digest, const std::string& source) {
  if (is_digest(digest)) return digest;
  constexpr size_t kShown = 100;
  throw Error(
      Errc::Corrupt,
      source + " names '" + escaped(digest.substr(0, kShown)) +
          "' where an image digest is required: sha256: and 64 lower-case hexadecimal digits");
}

std::string digest_hex(const std::string& digest) {
  return checked_digest(digest, "an image").substr(kPrefix.size());
}

}  // namespace dlflow
