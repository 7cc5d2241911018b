#include "engine/init/python_text.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/text.h"

namespace dlflow {
namespace {

bool is_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The end of the literal whose opening quote is at `at`.
size_t end_of_literal(std::string_view text, size_t at) {
  const char quote = text[at];
  for (++at; at < text.size() && text[at] != quote; ++at) at += text[at] == '\\' ? 1 : 0;
  return std::min(at + 1, text.size());
}

/// The first place after `at` with one of `ends`, outside of quotes and brackets that open there.
size_t find_outside(std::string_view text, size_t at, std::string_view ends) {
  for (int depth = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (depth == 0 && ends.find(c) != ends.npos) return at;
    if (c == '"' || c == '\'') at = end_of_literal(text, at) - 1;
    depth += c == '(' || c == '[' || c == '{' ? 1 : c == ')' || c == ']' || c == '}' ? -1 : 0;
  }
  return text.size();
}

/// The next place of `word`, not as a part of a longer name.
size_t find_name(std::string_view text, std::string_view word, size_t at) {
  for (; (at = text.find(word, at)) != text.npos; ++at) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || !is_of_name(text[at - 1]);
    if (begins && (end == text.size() || !is_of_name(text[end]))) return at;
  }
  return text.npos;
}

/// The value of the first assignment, `name = value`; empty without one.
std::string_view value_of(std::string_view text, std::string_view name) {
  for (size_t at = 0; (at = find_name(text, name, at)) != text.npos;) {
    at += name.size();
    const size_t sign = text.find_first_not_of(' ', at);
    if (sign == text.npos || text[sign] != '=' || text.substr(sign).starts_with("==")) continue;
    return trim(text.substr(sign + 1, find_outside(text, sign + 1, "\n,)") - sign - 1));
  }
  return "";
}

/// "ckpt/{epoch:02d}.pt", "ckpt/%d.pt" -> "ckpt/*.pt"
std::string with_stars(std::string literal) {
  for (size_t open; (open = literal.find_first_of("{%")) != literal.npos;) {
    const size_t close = literal.find_first_of(literal[open] == '{' ? "}" : "dsfi", open);
    literal.replace(open, close == literal.npos ? close : close - open + 1, "*");
  }
  return literal;
}

}  // namespace

std::vector<std::string> calls_of(std::string_view text, std::string_view function) {
  std::vector<std::string> calls;
  for (size_t at = 0; (at = find_name(text, function, at)) != text.npos;) {
    at += function.size();
    if (at == text.size() || text[at] != '(') continue;
    calls.emplace_back(text.substr(at + 1, find_outside(text, at + 1, ")") - at - 1));
  }
  return calls;
}

std::string argument(const std::string& call, std::string_view name, size_t index) {
  if (const std::string_view value = value_of(call, name); !value.empty())
    return std::string(value);
  size_t begin = 0;
  for (; index > 0 && begin < call.size(); --index) begin = find_outside(call, begin, ",") + 1;
  if (begin >= call.size()) return "";
  return std::string(
      trim(std::string_view(call).substr(begin, find_outside(call, begin, ",") - begin)));
}

std::string path_pattern(std::string_view expression, std::string_view text) {
  std::string pattern;
  bool is_unknown = false, has_plus = false, is_open = false;  // open: a star is due
  for (size_t at = 0; at < expression.size(); ++at) {
    const char c = expression[at];
    const size_t begin = at;
    std::string part = c == ',' || c == '/' ? "/" : "";
    if (c == '"' || c == '\'') {
      at = end_of_literal(expression, at) - 1;
      part = with_stars(std::string(expression.substr(begin + 1, at - begin - 1)));
    } else if (is_of_name(c)) {
      while (at + 1 < expression.size() && is_of_name(expression[at + 1])) ++at;
      const char next = at + 1 < expression.size() ? expression[at + 1] : ' ';
      if (next == '"' || next == '\'') continue;  // of f"…"
      const bool is_variable =
          (begin == 0 || expression[begin - 1] != '.') && next != '.' && next != '(';
      if (is_variable && !text.empty()) {
        part = path_pattern(value_of(text, expression.substr(begin, at + 1 - begin)), "");
      }
      is_unknown = part.empty();
    }
    is_open = is_open || (is_unknown && (has_plus || c == '+'));
    has_plus = c == '+' || (has_plus && part.empty());
    if (part.empty()) continue;
    pattern += (is_open ? "*" : "") + part;
    is_open = is_unknown = false;
  }
  if (is_open || pattern.ends_with('/')) pattern += "*";
  return std::filesystem::path(pattern).lexically_normal().string();
}

}  // namespace dlflow
