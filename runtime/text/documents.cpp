#include "runtime/text/documents.h"

#include <fmt/core.h>
#include <fnmatch.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "runtime/data/names.h"
#include "runtime/text/vocabulary.h"

namespace dlflow::runtime {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxNamedFiles = 20;

/// "17:5": line and column, both from 1; columns count bytes.
std::string place_in(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  return fmt::format("{}:{}", 1 + std::ranges::count(before, '\n'), offset - line_begin + 1);
}

/// The error message about a file, or nothing.
std::optional<std::string> mistake_in(const fs::path& path, std::string_view text) {
  if (const std::string what = not_plain_text(text); !what.empty()) {
    return path.string() + ": " + what;
  }
  const size_t nul = text.find('\0');
  if (nul == text.npos) return std::nullopt;
  return fmt::format("{}:{}: is a NUL byte, which text cannot have", path.string(),
                     place_in(text, nul));
}

/// Splits `text` at the lines that end documents, which may end with CR LF; drops a UTF-8 byte
/// order mark.
std::vector<std::string_view> parts_of(std::string_view text) {
  constexpr std::string_view kMarkOfUtf8 = "\xEF\xBB\xBF";
  if (text.starts_with(kMarkOfUtf8)) text.remove_prefix(kMarkOfUtf8.size());
  std::vector<std::string_view> parts;
  size_t begin = 0;
  for (size_t line = 0; line < text.size();) {
    const size_t end = std::min(text.find('\n', line), text.size());
    std::string_view content = text.substr(line, end - line);
    if (content.ends_with('\r')) content.remove_suffix(1);
    if (content == kEndOfText) {
      parts.push_back(text.substr(begin, line - begin));
      begin = std::min(end + 1, text.size());
    }
    line = end + 1;
  }
  parts.push_back(text.substr(begin));
  std::erase_if(parts, [](std::string_view part) { return part.empty(); });
  return parts;
}

void add_file(const NamedFile& file, const SharedBytes& content, Documents& documents) {
  const std::vector<std::string_view> parts = parts_of(content.view);
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string number = parts.size() == 1 ? "" : ":" + std::to_string(i + 1);
    documents.all.push_back({file.name + number, parts[i]});
  }
  documents.files.push_back(content);
}

}  // namespace

std::vector<NamedFile> files_of(const fs::path& source, const std::string& pattern) {
  if (!fs::exists(source)) {
    throw Error(Errc::NotFound, source.string() + ": there is no such file or folder");
  }
  if (!fs::is_directory(source)) return {{source, source.filename().string()}};
  std::vector<NamedFile> files;
  for (const auto& entry : fs::recursive_directory_iterator(source)) {
    const std::string last = entry.path().filename().string();
    if (!entry.is_regular_file() || ::fnmatch(pattern.c_str(), last.c_str(), 0) != 0) continue;
    files.push_back({entry.path(), entry.path().lexically_relative(source).generic_string()});
  }
  std::ranges::sort(files, {}, &NamedFile::name);
  if (files.empty()) {
    throw Error(Errc::NotFound, source.string() + ": has no files that match --pattern '" +
                                    pattern + "'; give another pattern");
  }
  return files;
}

Documents read_documents(std::span<const fs::path> sources, const std::string& pattern) {
  Documents documents;
  std::vector<std::string> mistakes;
  size_t num_bad = 0;
  for (const fs::path& source : sources) {
    for (const NamedFile& file : files_of(source, pattern)) {
      const SharedBytes content = map_file(file.path);
      if (const auto mistake = mistake_in(file.path, content.view)) {
        if (++num_bad <= kMaxNamedFiles) mistakes.push_back(*mistake);
        continue;
      }
      add_file(file, content, documents);
    }
  }
  if (num_bad > mistakes.size()) {
    mistakes.push_back(fmt::format("and {} more files", num_bad - mistakes.size()));
  }
  if (!mistakes.empty()) throw Error(Errc::InvalidInput, join(mistakes, "\n"));
  if (documents.all.empty()) {
    throw Error(Errc::NotFound, sources[0].string() + ": has no text");
  }
  return documents;
}

}  // namespace dlflow::runtime
