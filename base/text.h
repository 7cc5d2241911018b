#pragma once

#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Small functions for text.
namespace dlflow {

/// The candidate of which `word` is probably a typo: the same in other case; with at most a third
/// of its letters wrong, and not all of them, where a transposition counts once; or the only one
/// that begins with `word`. Otherwise an empty string.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// "; did you mean 'train'?", or an empty text: the end of a message about `word`.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

/// "; known: a, b", or an empty text if there are none or many: another such end.
std::string known_words(std::span<const std::string> words);

/// did_you_mean() if a candidate is near, else known_words().
std::string did_you_mean_or_list(std::string_view word, std::span<const std::string> candidates);

std::string join(std::span<const std::string> parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);

/// The offset of the first byte that is not well-formed UTF-8, or npos.
size_t find_invalid_utf8(std::string_view text);

/// The number that the whole of `text` represents, as parsed by std::from_chars; nothing if it is
/// not a number, or outside of the type's range.
template <typename Number>
std::optional<Number> number_from(std::string_view text) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end ? std::optional(number) : std::nullopt;
}

/// Two lower-case hexadecimal digits for each of `bytes`.
std::string hexadecimal(std::span<const unsigned char> bytes);

/// `bytes` in base 64, with padding.
std::string base64(std::string_view bytes);

/// The number of terminal columns that `text` takes (UTF-8, no control characters).
size_t display_width(std::string_view text);

/// `text` on one line without effects on a terminal: control characters of ASCII and C1, and those
/// that change the direction of text, are escaped as in JSON; bytes that are not UTF-8 as \xNN.
std::string escaped(std::string_view text);

/// Like escaped, for text of several lines: keeps line ends and tabs.
std::string escaped_lines(std::string_view text);

/// The name of a file within a line, in the notation of sha256sum: line ends become \n and \r, a
/// backslash becomes two. Different names give different texts.
std::string name_in_line(std::string_view name);

/// `text` as a field of comma-separated values (RFC 4180): in quotes where necessary.
std::string csv_field(std::string_view text);

/// `word` quoted for a POSIX shell.
std::string shell_quote(std::string_view word);

/// All `words`, each quoted, as one line that can be pasted.
std::string shell_line(std::span<const std::string> words);

}  // namespace dlflow
