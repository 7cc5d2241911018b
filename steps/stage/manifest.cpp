#include "steps/stage/manifest.h"

#include <algorithm>
#include <cctype>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "steps/stage/staged_source.h"
#include "steps/transfer/listed_names.h"

namespace dlflow::steps {
namespace {

constexpr size_t kHashDigits = 64;
constexpr uint64_t kMaxManifestBytes = uint64_t{1} << 30;

/// sha256sum begins a line with '\' if the name is escaped as in name_in_line().
std::string unescaped(const std::string& name) {
  std::string plain;
  for (size_t i = 0; i < name.size(); ++i) {
    char letter = name[i];
    if (letter == '\\' && i + 1 < name.size()) {
      letter = name[++i];
      if (letter == 'n') letter = '\n';
      if (letter == 'r') letter = '\r';
    }
    plain += letter;
  }
  return plain;
}

/// A name below the folder; sha256sum escapes line ends only, no other control characters.
bool is_listed_name(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return c == '\n' || c == '\r'; }, '_');
  return is_safe_name(name);
}

/// "HASH  NAME", or "HASH *NAME" for a file read in binary mode.
std::pair<std::string, std::string> parse_line(std::string line, const std::string& where) {
  const bool is_escaped = line.starts_with('\\');
  if (is_escaped) line.erase(0, 1);
  std::string hash = line.substr(0, kHashDigits);
  bool valid = line.size() > kHashDigits + 2 && line[kHashDigits] == ' ' &&
               (line[kHashDigits + 1] == ' ' || line[kHashDigits + 1] == '*');
  for (char& digit : hash) {
    valid = valid && std::isxdigit(static_cast<unsigned char>(digit)) != 0;
    digit = char(std::tolower(static_cast<unsigned char>(digit)));
  }
  if (!valid) throw Error(Errc::InvalidInput, where + ": is not in the format of sha256sum");
  std::string name = line.substr(kHashDigits + 2);
  if (is_escaped) name = unescaped(name);
  if (name.starts_with("./")) name.erase(0, 2);
  if (!is_listed_name(name)) {
    throw Error(Errc::InvalidInput,
                where + ": '" + escaped(name) + "' is not a name below the folder");
  }
  return {std::move(name), std::move(hash)};
}

/// "missing a, b and 3 more"; nothing if there are none.
std::string list(const char* kind, const std::vector<std::string>& names) {
  constexpr size_t kMaxNames = 10;
  if (names.empty()) return "";
  const size_t shown = std::min(names.size(), kMaxNames);
  std::string text =
      std::string("; ") + kind + " " + escaped(join(std::span(names).first(shown), ", "));
  if (names.size() > shown) text += " and " + format_count(names.size() - shown) + " more";
  return text;
}

}  // namespace

Manifest parse_manifest(std::string_view text, const std::string& where) {
  Manifest manifest;
  size_t number = 0;
  for (std::string& line : split(text, '\n')) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    const std::string place = where + ":" + std::to_string(number);
    auto [name, hash] = parse_line(std::move(line), place);
    const auto [entry, is_new] = manifest.emplace(name, hash);
    if (!is_new && entry->second != hash) {
      throw Error(Errc::InvalidInput, place + ": '" + name + "' occurs twice");
    }
  }
  if (manifest.empty()) throw Error(Errc::InvalidInput, where + ": lists no file");
  return manifest;
}

Manifest load_manifest(const ManifestSource& source, Cache& cache, const FetchOptions& options) {
  if (!source.file.empty()) {
    return parse_manifest(read_file(source.file, kMaxManifestBytes),
                          source.file.filename().string());
  }
  const Source file{
      .address = parse_address(source.url), .sha256 = source.sha256, .commit = {}, .name = {}};
  const StagedSource staged = stage_source(file, cache, options);
  return parse_manifest(read_file(staged.contents.at(source.sha256), kMaxManifestBytes),
                        file.display());
}

void compare(const Listing& found, const Manifest& manifest, const std::string& what) {
  std::vector<std::string> missing;
  std::vector<std::string> surplus;
  std::vector<std::string> changed;
  for (const auto& [name, hash] : manifest) {
    const auto file = found.find(name);
    if (file == found.end()) {
      missing.push_back(name);
    } else if (!file->second.sha256.empty() && file->second.sha256 != hash) {
      changed.push_back(name);
    }
  }
  for (const auto& [name, file] : found) {
    if (file.link_target.empty() && !manifest.contains(name)) surplus.push_back(name);
  }
  const std::string differences =
      list("missing:", missing) + list("not in it:", surplus) + list("changed:", changed);
  if (!differences.empty()) {
    throw Error(Errc::Corrupt, what + " does not match its manifest" + differences);
  }
}

}  // namespace dlflow::steps
