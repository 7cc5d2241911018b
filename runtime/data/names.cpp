#include "runtime/data/names.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace dlflow::runtime {
namespace {

bool is_control(char c) { return uint8_t(c) < 0x20 || c == 0x7f; }

}  // namespace

std::vector<std::string> read_names(const std::filesystem::path& file) {
  const auto text = read_file_if_exists(file);
  if (!text) return {};
  constexpr std::string_view kMarkOfUtf8 = "\xEF\xBB\xBF";
  const std::string_view content = *text;
  std::vector<std::string> names =
      split(content.substr(content.starts_with(kMarkOfUtf8) ? kMarkOfUtf8.size() : 0), '\n');
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].ends_with('\r')) names[i].pop_back();
    if (find_invalid_utf8(names[i]) == std::string::npos) continue;
    throw Error(Errc::Corrupt, fmt::format("{}:{}: is not UTF-8; convert the file with iconv",
                                           file.string(), i + 1));
  }
  while (!names.empty() && trim(names.back()).empty()) names.pop_back();
  return names;
}

std::string mistake_in_name(std::string_view name) {
  if (name.empty()) return "is empty";
  if (std::ranges::any_of(name, is_control)) return "has control characters";
  return find_invalid_utf8(name) == std::string_view::npos ? "" : "is not UTF-8";
}

std::string not_plain_text(std::string_view content) {
  using namespace std::string_view_literals;
  constexpr std::array<std::pair<std::string_view, const char*>, 5> kBeginnings = {{
      {"\xFF\xFE"sv, "is UTF-16; convert it: iconv -f UTF-16 -t UTF-8"},
      {"\xFE\xFF"sv, "is UTF-16; convert it: iconv -f UTF-16 -t UTF-8"},
      {"\x1f\x8b"sv, "is compressed by gzip; unpack it with gunzip"},
      {"\xFD"
       "7zXZ\0"sv,
       "is compressed by xz; unpack it with unxz"},
      {"\x28\xB5\x2F\xFD"sv, "is compressed by zstd; unpack it with unzstd"},
  }};
  for (const auto& [beginning, what] : kBeginnings) {
    if (content.starts_with(beginning)) return what;
  }
  return "";
}

}  // namespace dlflow::runtime
