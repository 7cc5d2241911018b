#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dlflow::runtime {

/// A field of a table and its offset in the text.
struct TableField {
  std::string text;
  size_t offset = 0;
};

/// Returns a field for messages, with a long one cut.
std::string shown_field(const std::string& text);

/// Reads the text of a table, record by record, and collects mistakes and notes about its fields.
class TableReader {
 public:
  /// `content` and `name` must outlive this.
  TableReader(std::string_view content, const std::string& name, char separator);

  /// Reads the fields of the next record that is not empty; false at the end.
  bool next(std::vector<TableField>& fields);

  /// Adds a mistake in the field at `offset`.
  void report(size_t offset, const std::string& text);

  /// Adds a likely mistake. All of one `kind` in a column make one note, which names the first.
  void note(const TableField& field, const std::string& column, const std::string& kind,
            const std::string& text, const std::string& advice);

  /// The same for a mistake: that a value is missing.
  void refuse_missing(const TableField& field, const std::string& column, const std::string& text,
                      const std::string& advice);
  std::vector<std::string> notes(bool are_mistakes = false) const;

  /// Throws Error{Corrupt} if there were mistakes, with the first 20.
  void finish();

 private:
  struct Note {
    std::string begin, advice;
    bool is_mistake = false;
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
  bool is_open_ = false;                            // a quote is not closed; its text is no record
  size_t counted_ = 0, line_ = 1, line_begin_ = 0;  // state of place_of()
  std::vector<std::string> mistakes_;
  size_t num_mistakes_ = 0;
  std::map<std::string, Note> notes_;  // keyed by column and kind
};

}  // namespace dlflow::runtime
