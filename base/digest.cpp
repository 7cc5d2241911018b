#include "base/digest.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace dlflow {
namespace {

bool is_hexadecimal(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

class RefusedHash : public Json::exception {
 public:
  explicit RefusedHash(const std::string& reason) : exception(0, reason.c_str()) {}
};

}  // namespace

bool is_hash(std::string_view text, std::string_view prefix) {
  return text.size() == prefix.size() + 64 && text.starts_with(prefix) &&
         std::ranges::all_of(text.substr(prefix.size()), is_hexadecimal);
}

void refuse_hash(std::string_view text, std::string_view form, const std::string& source) {
  constexpr size_t kShown = 100;
  const std::string reason =
      "'" + escaped(text.substr(0, kShown)) + "' is not " + std::string(form);
  if (source.empty()) throw RefusedHash(reason);
  throw Error(Errc::Corrupt, source + ": " + reason);
}

}  // namespace dlflow
