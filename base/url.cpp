#include "base/url.h"

#include <fnmatch.h>

namespace dlflow {
namespace {

constexpr std::string_view kWildcards = "*?[";
constexpr std::string_view kUnescaped =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-._~";

int hex_digit(char digit) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  const auto place = kDigits.find(char(digit | 0x20));
  return place == std::string_view::npos ? -1 : int(place);
}

bool is_escape(std::string_view text) {
  return text.size() >= 3 && text[0] == '%' && hex_digit(text[1]) >= 0 && hex_digit(text[2]) >= 0;
}

char letter_of(std::string_view escape) {
  return char(hex_digit(escape[1]) * 16 + hex_digit(escape[2]));
}

/// The pattern of an encoded name; escaped characters match only themselves.
std::string pattern_of(std::string_view encoded) {
  std::string pattern;
  for (size_t i = 0; i < encoded.size(); ++i) {
    const bool is_escaped = is_escape(encoded.substr(i));
    const char letter = is_escaped ? letter_of(encoded.substr(i)) : encoded[i];
    if (letter == '\\' || (is_escaped && kWildcards.find(letter) != std::string_view::npos)) {
      pattern += '\\';
    }
    pattern += letter;
    if (is_escaped) i += 2;
  }
  return pattern;
}

}  // namespace

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_escape(text.substr(i))) {
      decoded += letter_of(text.substr(i));
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

std::string percent_encoded(std::string_view path) {
  static constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  for (const char letter : path) {
    if (kUnescaped.find(letter) != std::string_view::npos) {
      encoded += letter;
    } else {
      encoded += {'%', kDigits[uint8_t(letter) >> 4], kDigits[uint8_t(letter) & 15]};
    }
  }
  return encoded;
}

std::string display_url(const std::string& url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string::npos) return url;
  const size_t host = scheme + 3;
  const size_t end = url.find_first_of("/?#", host);
  const size_t at = url.rfind('@', end);
  const bool has_user = at != std::string::npos && at >= host;
  const std::string rest = url.substr(has_user ? at + 1 : host);
  const bool is_web = url.starts_with("http") || url.starts_with("git+http");
  const size_t query = is_web ? rest.find('?') : std::string::npos;
  return url.substr(0, host) + (query == std::string::npos ? rest : rest.substr(0, query) + "?…");
}

UrlPath parse_url_path(std::string_view encoded) {
  const size_t slash = encoded.rfind('/');
  const std::string_view last =
      slash == std::string_view::npos ? encoded : encoded.substr(slash + 1);
  UrlPath place;
  place.is_folder = last.empty();
  if (last.find_first_of(kWildcards) != std::string_view::npos) {
    place.pattern = pattern_of(last);
    encoded.remove_suffix(last.size());
  }
  if (encoded.size() > 1 && encoded.ends_with('/')) encoded.remove_suffix(1);
  place.path = percent_decoded(encoded);
  return place;
}

bool matches(const std::string& name, const std::string& pattern) {
  return ::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0;
}

std::optional<UrlPath> parse_file_url(std::string_view url) {
  constexpr std::string_view kScheme = "file://";
  constexpr std::string_view kLocalHost = "localhost/";
  if (!url.starts_with(kScheme)) return std::nullopt;
  url.remove_prefix(kScheme.size());
  if (url.starts_with(kLocalHost)) url.remove_prefix(kLocalHost.size() - 1);
  if (!url.starts_with('/')) return std::nullopt;
  return parse_url_path(url);
}

}  // namespace dlflow
