#include "engine/model/script_variables.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace dlflow {
namespace {

/// Variables that bash and sh set.
constexpr std::array<std::string_view, 20> kOfTheShell = {
    "EUID",   "GROUPS", "HOSTNAME", "HOSTTYPE",  "IFS",        "LINENO", "MACHTYPE",
    "OLDPWD", "OPTARG", "OPTIND",   "OSTYPE",    "PIPESTATUS", "PPID",   "PWD",
    "RANDOM", "REPLY",  "SECONDS",  "SHELLOPTS", "SHLVL",      "UID"};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string_view name_at(std::string_view text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) != 0) return {};
  size_t end = 0;
  while (end < text.size() && is_word(text[end])) ++end;
  return text.substr(0, end);
}

/// The last word before `end`, on the same line.
std::string_view word_before(std::string_view script, size_t end) {
  while (end > 0 && script[end - 1] == ' ') --end;
  size_t begin = end;
  while (begin > 0 && is_word(script[begin - 1])) --begin;
  return script.substr(begin, end - begin);
}

/// Finds NAME in NAME=…, for NAME, read NAME, export NAME and the like.
std::set<std::string> variables_set(std::string_view script) {
  constexpr std::array<std::string_view, 5> kSetters = {"for", "read", "local", "declare",
                                                        "mapfile"};
  std::set<std::string> names;
  for (size_t i = 0; i < script.size(); ++i) {
    if (!is_word(script[i]) || (i > 0 && (is_word(script[i - 1]) || script[i - 1] == '$')))
      continue;
    const std::string_view name = name_at(script.substr(i));
    if (name.empty()) continue;
    const size_t end = i + name.size();
    const bool assigned =
        script.substr(end).starts_with('=') || script.substr(end).starts_with("+=");
    const bool after_setter = std::ranges::find(kSetters, word_before(script, i)) != kSetters.end();
    if (assigned || after_setter) names.emplace(name);
  }
  return names;
}

}  // namespace

std::set<std::string> variables_read(std::string_view script) {
  std::set<std::string> names;
  for (size_t i = 0; i + 1 < script.size(); ++i) {
    if (script[i] != '$') continue;
    const size_t begin = script[i + 1] == '{' ? i + 2 : i + 1;
    const std::string_view name = name_at(script.substr(std::min(begin, script.size())));
    if (!name.empty()) names.emplace(name);
    if (script[i + 1] == '$') ++i;  // $$, the shell's process id
  }
  for (const std::string& name : variables_set(script)) names.erase(name);
  for (const std::string_view name : kOfTheShell) names.erase(std::string(name));
  std::erase_if(names, [](const std::string& name) { return name.starts_with("BASH"); });
  return names;
}

}  // namespace dlflow
