#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dlflow::runtime {

/// A field of a table and where it begins in the text.
struct TableField {
  std::string text;
  size_t offset = 0;
};

/// A field as messages show it, the end of a long one left out.
std::string shown_field(const std::string& text);

/// Reads the text of a table, record by record, and collects what is said about its fields.
class TableReader {
 public:
  /// `content` and `name` must outlive this.
  TableReader(std::string_view content, const std::string& name, char separator);

  /// The fields of the next record that is not empty; false at the end.
  bool next(std::vector<TableField>& fields);

  /// A mistake, by the offset of its field.
  void report(size_t offset, const std::string& text);

  /// What may be a mistake. All of a `kind` in a column are one note, which names the first.
  void note(const TableField& field, const std::string& column, const std::string& kind,
            const std::string& text, const std::string& advice);
  std::vector<std::string> notes() const;

  /// Throws Error{Corrupt} if there were mistakes, with the first 20.
  void finish();

 private:
  struct Note {
    std::string begin, advice;
    size_t count = 0;
  };

  bool ends_field(char c) const { return c == separator_ || c == '\n' || c == '\r'; }
  TableField next_field();
  void read_quoted(TableField& field);
  bool ends_line(size_t offset) const;
  std::pair<size_t, size_t> place_of(size_t offset);

  std::string_view content_;
  const std::string& name_;
  char separator_;
  size_t at_ = 0;
  bool is_open_ = false;  // a quote was not closed: what it begins is no record
  size_t counted_ = 0, line_ = 1, line_begin_ = 0;  // of place_of()
  std::vector<std::string> mistakes_;
  size_t num_mistakes_ = 0;
  std::map<std::string, Note> notes_;  // by column and kind
};

}  // namespace dlflow::runtime
