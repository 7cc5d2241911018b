#include "engine/model/yaml_errors.h"

#include <algorithm>
#include <array>
#include <utility>

namespace dlflow {
namespace {

std::string_view line_up_to(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const size_t newline = before.rfind('\n');
  return newline == before.npos ? before : before.substr(newline + 1);
}

/// "${{ params.ranks }}": the expression at the beginning of `text`, as far as it is on one line.
std::string expression_at(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const size_t end = line.find("}}");
  return end == line.npos ? "${{ … }}" : std::string(line.substr(0, end + 2));
}

/// The offset of a tab in the indentation of the line around `offset`, or npos.
size_t find_tab_indentation(std::string_view text, size_t offset) {
  const size_t begin = offset - line_up_to(text, offset).size();
  const size_t first = std::min(text.find_first_not_of(" \t", begin), text.size());
  const size_t tab = text.substr(0, first).find('\t', begin);
  return tab;
}

std::string in_our_words(const std::string& message) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kWords = {{
      {"illegal map value",
       "unexpected ':'; check the indentation, and quote text that contains ': '"},
      {"end of map flow not found", "expected ',' or '}' here"},
      {"end of sequence flow not found", "expected ',' or ']' here"},
      {"end of map not found", "expected a key; the keys of one mapping begin in the same column"},
      {"end of sequence not found",
       "expected '- '; the items of one list begin in the same column"},
      {"illegal EOF in scalar", "a quote is never closed"},
      {"unknown token", "text cannot begin with this character; quote it"},
      {"illegal flow end", "a closing bracket without its opening one"},
      {"the referenced anchor is not defined", "an alias whose anchor (&name) is not defined"},
  }};
  for (const auto& [theirs, ours] : kWords) {
    if (message.starts_with(theirs)) return std::string(ours);
  }
  return message;
}

}  // namespace

void add_syntax_error(Mistakes& mistakes, size_t offset, const std::string& message) {
  const std::string_view text = mistakes.text();
  offset = std::min(offset, text.size());
  if (offset > 0 && text[offset - 1] == '$' && text.substr(offset).starts_with("{{")) {
    mistakes.add(mistakes.location_of(offset - 1),
                 "an expression inside { } or [ ] must be quoted: write \"" +
                     expression_at(text.substr(offset - 1)) + "\"");
    return;
  }
  const std::string_view line = line_up_to(text, offset);
  if (const size_t opening = line.find("${{");
      opening != line.npos && message.starts_with("illegal map value")) {
    mistakes.add(mistakes.location_of(offset - line.size() + opening),
                 "an expression with ': ' in it must be quoted, with \" around the whole value");
    return;
  }
  if (const size_t tab = find_tab_indentation(text, offset); tab != text.npos) {
    mistakes.add(mistakes.location_of(tab),
                 "a tab in the indentation; YAML is indented with spaces");
    return;
  }
  mistakes.add(mistakes.location_of(offset), "not valid YAML: " + in_our_words(message));
}

bool has_unclosed_quote(std::string_view text, size_t offset) {
  while (offset < text.size() && (text[offset] == '&' || text[offset] == '!')) {
    offset = std::min(text.find_first_of(" \t\r\n", offset), text.size());
    offset = std::min(text.find_first_not_of(" \t\r\n", offset), text.size());
  }
  if (offset >= text.size() || (text[offset] != '"' && text[offset] != '\'')) return false;
  const char quote = text[offset];
  for (size_t i = offset + 1; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      if (quote == '"' || text.substr(i + 1, 1) != "'") return false;
      ++i;
    }
  }
  return true;
}

}  // namespace dlflow
