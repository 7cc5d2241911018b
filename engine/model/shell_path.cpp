#include "engine/model/shell_path.h"

#include <cctype>
#include <cstdlib>
#include <string_view>

#include "base/error.h"

namespace dlflow {
namespace {

std::string value_of(const std::string& name, const std::string& text, const std::string& key) {
  const char* const value = std::getenv(name.c_str());
  if (value != nullptr && *value != '\0') return value;
  throw Error(Errc::InvalidInput, key + ": " + text + " names $" + name +
                                      ", which is not set here; set it, or write the path");
}

bool is_name_character(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_';
}

/// The name behind a '$', with its braces: "{USER}" or "USER"; empty if there is none.
std::string_view variable_at(std::string_view text) {
  if (text.starts_with('{')) {
    const size_t end = text.find('}');
    return end == text.npos ? std::string_view() : text.substr(0, end + 1);
  }
  size_t length = 0;
  while (length < text.size() && is_name_character(text[length])) ++length;
  return text.substr(0, length);
}

}  // namespace

std::filesystem::path shell_path(const std::string& text, const std::string& key) {
  std::string path;
  std::string_view left = text;
  if (text == "~" || text.starts_with("~/")) {
    path = value_of("HOME", text, key);
    left.remove_prefix(1);
  }
  while (!left.empty()) {
    const size_t dollar = left.find('$');
    path += left.substr(0, dollar);
    if (dollar == left.npos) break;
    left.remove_prefix(dollar + 1);
    const std::string_view variable = variable_at(left);
    const bool has_braces = variable.starts_with('{');
    const std::string name(has_braces ? variable.substr(1, variable.size() - 2) : variable);
    path += name.empty() ? "$" : value_of(name, text, key);
    left.remove_prefix(name.empty() ? 0 : variable.size());
  }
  return path;
}

}  // namespace dlflow
