#include "base/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstdio>

namespace dlflow {
namespace {

/// Damerau-Levenshtein distance with adjacent transpositions (optimal string alignment).
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

struct Decoded {
  uint32_t code_point;
  size_t length;  // 0: invalid
};

Decoded decode_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return uint32_t(static_cast<unsigned char>(text[i])); };
  const uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return {0, 0};
  uint32_t code_point = first & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {0, 0};
    code_point = (code_point << 6) | (byte(i) & 0x3F);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  if (code_point < kSmallest[length] || code_point > 0x10FFFF || surrogate) return {0, 0};
  return {code_point, length};
}

bool is_wide(
    uint32_t c) {  // East Asian wide and emoji blocks; wcwidth() would depend on the locale
  return (c >= 0x1100 && c <= 0x115F) || (c >= 0x2E80 && c <= 0xA4CF) ||
         (c >= 0xAC00 && c <= 0xD7A3) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0xFE30 && c <= 0xFE6F) || (c >= 0xFF00 && c <= 0xFF60) ||
         (c >= 0x1F300 && c <= 0x1F64F) || (c >= 0x1F900 && c <= 0x1F9FF);
}

bool is_combining(uint32_t c) { return (c >= 0x300 && c <= 0x36F) || c == 0x200D || c == 0xFE0F; }

bool is_same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

/// The shortest of the `candidates` that begin with `word` and are longer: "conv2d" rather than
/// "conv_transpose2d" for "conv".
std::string completed(std::string_view word, std::span<const std::string> candidates) {
  constexpr size_t kLeast = 3;  // fewer letters are too vague
  if (word.size() < kLeast) return "";
  std::string found;
  bool is_clear = false;
  for (const std::string& candidate : candidates) {
    const bool longer = candidate.size() > word.size();
    if (!longer || !std::equal(word.begin(), word.end(), candidate.begin(), is_same_letter)) {
      continue;
    }
    if (found.empty() || candidate.size() < found.size()) {
      found = candidate;
      is_clear = true;
    } else if (candidate.size() == found.size()) {
      is_clear = false;
    }
  }
  return is_clear ? found : "";
}

/// Whether the character controls a terminal, or changes the direction or the line of the text
/// around it.
bool is_control(uint32_t code_point) {
  const auto within = [code_point](uint32_t first, uint32_t last) {
    return code_point >= first && code_point <= last;
  };
  return code_point < 0x20 || within(0x7F, 0x9F) || code_point == 0x61C || within(0x200E, 0x200F) ||
         within(0x2028, 0x202E) || within(0x2066, 0x2069);
}

std::string escape(uint32_t code_point) {
  if (code_point == '\n') return "\\n";
  if (code_point == '\t') return "\\t";
  if (code_point == '\r') return "\\r";
  std::array<char, 7> code{};
  std::snprintf(code.data(), code.size(), "\\u%04x", unsigned(code_point & 0xFFFFU));
  return code.data();
}

std::string escaped_but(std::string_view text, std::string_view kept) {
  std::string safe;
  while (!text.empty()) {
    const auto [code_point, length] = decode_utf8(text);
    const size_t bytes = std::max<size_t>(length, 1);
    if (length == 0) {
      std::array<char, 5> code{};
      std::snprintf(code.data(), code.size(), "\\x%02x",
                    unsigned{static_cast<unsigned char>(text.front())});
      safe += code.data();
    } else if (is_control(code_point) && kept.find(text.front()) == kept.npos) {
      safe += escape(code_point);
    } else {
      safe += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return safe;
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  for (const std::string& candidate : candidates) {
    const bool same = candidate != word && std::equal(word.begin(), word.end(), candidate.begin(),
                                                      candidate.end(), is_same_letter);
    if (same) return candidate;
  }
  std::string best;
  size_t best_distance = std::max<size_t>(1, (word.size() + 1) / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < word.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best.empty() ? completed(word, candidates) : best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::string best = nearest(word, candidates);
  return best.empty() ? "" : "; did you mean '" + best + "'?";
}

std::string known_words(std::span<const std::string> words) {
  constexpr size_t kMostListed = 24;
  return words.empty() || words.size() > kMostListed ? "" : "; known: " + join(words, ", ");
}

std::string did_you_mean_or_list(std::string_view word, std::span<const std::string> candidates) {
  const std::string text = did_you_mean(word, candidates);
  return text.empty() ? known_words(candidates) : text;
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += separator;
    text += parts[i];
  }
  return text;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

size_t find_invalid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = decode_utf8(text.substr(i)).length;
    if (length == 0) return i;
    i += length;
  }
  return std::string_view::npos;
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    const auto [code_point, length] = decode_utf8(text);
    if (!is_combining(code_point)) width += is_wide(code_point) ? 2 : 1;
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return width;
}

std::string escaped(std::string_view text) { return escaped_but(text, ""); }

std::string escaped_lines(std::string_view text) { return escaped_but(text, "\n\t"); }

std::string name_in_line(std::string_view name) {
  std::string text;
  for (const char c : name) {
    switch (c) {
      case '\\':
        text += "\\\\";
        break;
      case '\n':
        text += "\\n";
        break;
      case '\r':
        text += "\\r";
        break;
      default:
        text += c;
    }
  }
  return text;
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string hexadecimal(std::span<const unsigned char> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

/// OpenSSL's function would bring zlib and zstd into every static program on Debian 13.
std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t begin = 0; begin < bytes.size(); begin += 3) {
    const std::string_view group = bytes.substr(begin, 3);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i) bits = bits << 8 | (i < group.size() ? uint8_t(group[i]) : 0U);
    for (size_t i = 0; i < 4; ++i) {
      text += i <= group.size() ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
    }
  }
  return text;
}

std::string shell_quote(std::string_view word) {
  constexpr std::string_view kSafe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  if (!word.empty() && word.find_first_not_of(kSafe) == std::string_view::npos) {
    return std::string(word);
  }
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string shell_line(std::span<const std::string> words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_quote(word);
  return line;
}

}  // namespace dlflow
