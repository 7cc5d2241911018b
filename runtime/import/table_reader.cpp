#include "runtime/import/table_reader.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kMaxMistakes = 20;
constexpr size_t kMaxShown = 40;  // bytes of a field in a message

}  // namespace

std::string shown_field(const std::string& text) {
  return "'" + (text.size() <= kMaxShown ? text : text.substr(0, kMaxShown) + "…") + "'";
}

TableReader::TableReader(std::string_view content, const std::string& name, char separator)
    : content_(content), name_(name), separator_(separator) {
  if (content_.starts_with("\xEF\xBB\xBF")) content_.remove_prefix(3);  // UTF-8 byte order mark
}

bool TableReader::next(std::vector<TableField>& fields) {
  while (at_ < content_.size() && (content_[at_] == '\n' || content_[at_] == '\r')) ++at_;
  fields.clear();
  if (at_ == content_.size()) return false;
  for (;;) {
    fields.push_back(next_field());
    if (at_ == content_.size()) return !is_open_;
    if (content_[at_++] != separator_) return true;
  }
}

void TableReader::report(size_t offset, const std::string& text) {
  if (++num_mistakes_ > kMaxMistakes) return;
  const auto [line, column] = place_of(offset);
  mistakes_.push_back(fmt::format("{}:{}:{}: {}", name_, line, column, text));
}

void TableReader::note(const TableField& field, const std::string& column, const std::string& kind,
                       const std::string& text, const std::string& advice) {
  Note& note = notes_[column + "\n" + kind];
  if (note.count++ > 0) return;
  const auto [line, at] = place_of(field.offset);
  note.begin = fmt::format("{}:{}:{}: {} (column '{}'", name_, line, at, text, column);
  note.advice = advice;
}

void TableReader::refuse_missing(const TableField& field, const std::string& column,
                                 const std::string& text, const std::string& advice) {
  note(field, column, "missing", text, advice);
  notes_[column + "\nmissing"].is_mistake = true;
}

std::vector<std::string> TableReader::notes(bool are_mistakes) const {
  std::vector<std::string> lines;
  for (const auto& [kind, note] : notes_) {
    if (note.is_mistake != are_mistakes) continue;
    const std::string more = note.count == 1 ? "" : fmt::format(", and {} more", note.count - 1);
    lines.push_back(note.begin + more + "); " + note.advice);
  }
  return lines;
}

void TableReader::finish() {
  for (const std::string& line : notes(true)) {
    if (++num_mistakes_ <= kMaxMistakes) mistakes_.push_back(line);
  }
  if (mistakes_.empty()) return;
  if (num_mistakes_ > mistakes_.size()) {
    mistakes_.push_back(fmt::format("and {} more", num_mistakes_ - mistakes_.size()));
  }
  throw Error(Errc::Corrupt, join(mistakes_, "\n"));
}

TableField TableReader::next_field() {
  TableField field{"", at_};
  if (at_ < content_.size() && content_[at_] == '"') read_quoted(field);
  const size_t begin = at_;
  while (at_ < content_.size() && !ends_field(content_[at_])) ++at_;
  field.text += trim(content_.substr(begin, at_ - begin));
  return field;
}

/// Two quotes within quotes stand for one.
void TableReader::read_quoted(TableField& field) {
  for (++at_; at_ < content_.size(); ++at_) {
    if (content_[at_] != '"') {
      field.text += content_[at_];
    } else if (at_ + 1 < content_.size() && content_[at_ + 1] == '"') {
      field.text += '"';
      ++at_;
    } else {
      ++at_;
      return;
    }
  }
  is_open_ = true;
  report(field.offset, "the quote that begins here is not closed");
}

/// CR LF ends one line, and so does CR alone.
bool TableReader::ends_line(size_t offset) const {
  if (content_[offset] == '\r') return !content_.substr(offset + 1).starts_with('\n');
  return content_[offset] == '\n';
}

/// Returns line and column, from 1, in characters of UTF-8.
std::pair<size_t, size_t> TableReader::place_of(size_t offset) {
  if (offset < line_begin_) counted_ = line_begin_ = 0, line_ = 1;
  for (; counted_ < offset; ++counted_) {
    if (!ends_line(counted_)) continue;
    ++line_;
    line_begin_ = counted_ + 1;
  }
  const std::string_view before = content_.substr(line_begin_, offset - line_begin_);
  const auto starts_character = [](char c) { return (uint8_t(c) & 0xC0) != 0x80; };
  return {line_, 1 + size_t(std::ranges::count_if(before, starts_character))};
}

}  // namespace dlflow::runtime
