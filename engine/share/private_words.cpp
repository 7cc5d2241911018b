#include "engine/share/private_words.h"

#include <algorithm>
#include <cstdlib>

#include "base/archive/byte_source.h"
#include "base/process.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Words of at least this length do not occur by chance in binary files, such as weights.
constexpr size_t kLongName = 6;
constexpr size_t kMaxWordBytes = 4096;

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Whether `word` occurs in `text` as a whole word; if `numbered`, followed by digits.
bool holds_word(std::string_view text, std::string_view word, bool numbered) {
  for (size_t place = text.find(word); place != text.npos; place = text.find(word, place + 1)) {
    size_t end = place + word.size();
    if (place > 0 && is_word_character(text[place - 1])) continue;
    if (numbered && (end == text.size() || !is_digit(text[end]))) continue;
    while (numbered && end < text.size() && is_digit(text[end])) ++end;
    if (end == text.size() || !is_word_character(text[end])) return true;
  }
  return false;
}

}  // namespace

PrivateWords::PrivateWords(const Plan& plan, const std::vector<std::string>& nodes) {
  for (const fs::path& folder : {plan.directory, plan.directory.parent_path(), plan.base,
                                 plan.profile.cache, plan.profile.scratch}) {
    add_folder(folder);
  }
  for (const char* variable : {"HOME", "DLFLOW_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"}) {
    if (const char* value = std::getenv(variable)) add_folder(value);
  }
  for (const std::string& node : nodes) add_name(node);
  add_name(host_name());
  for (const char* variable : {"USER", "LOGNAME"}) {
    if (const char* value = std::getenv(variable)) add_name(value);
  }
}

/// Ignores the root folder and others that occur everywhere.
void PrivateWords::add_folder(const fs::path& folder) {
  fs::path normal = folder.lexically_normal();
  if (!normal.has_filename()) normal = normal.parent_path();
  const bool shared = normal == "/tmp" || normal == "/var/tmp" || normal == "/dev/shm";
  if (!normal.is_absolute() || !normal.has_relative_path() || shared) return;
  folders_.push_back(normal.string());
}

void PrivateWords::add_name(const std::string& name) {
  constexpr size_t kTellingStem = 4;
  if (name.size() < 2 || name == "localhost" || name == "root") return;
  if (const size_t dot = name.find('.'); dot != name.npos) add_name(name.substr(0, dot));
  const size_t stem = name.find_last_not_of("0123456789") + 1;
  const bool numbered = stem < name.size() && stem >= kTellingStem;
  names_.push_back({numbered ? name.substr(0, stem) : name, numbered});
}

std::optional<std::string> PrivateWords::find_in(std::string_view text) const {
  const bool is_text = text.find('\0') == text.npos;
  for (const std::string& folder : folders_) {
    if (text.find(folder) != text.npos) return folder;
  }
  for (const Name& name : names_) {
    const bool telling = is_text || name.text.size() >= kLongName;
    if (telling && holds_word(text, name.text, name.numbered)) return name.text;
  }
  return std::nullopt;
}

std::optional<std::string> PrivateWords::find_in_file(const fs::path& file) const {
  const auto source = open_file(file);
  std::vector<char> buffer(size_t{1} << 20);
  size_t kept = 0;  // the end of the previous piece, so that no word is split
  while (const size_t got = source->read(std::span(buffer).subspan(kept))) {
    const std::string_view piece(buffer.data(), kept + got);
    if (auto word = find_in(piece)) return word;
    kept = std::min(piece.size(), kMaxWordBytes);
    std::copy(piece.end() - std::ptrdiff_t(kept), piece.end(), buffer.begin());
  }
  return std::nullopt;
}

}  // namespace dlflow
