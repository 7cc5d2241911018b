#include "runtime/import/table.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kMaxMistakes = 20;
constexpr size_t kMaxShown = 40;  // bytes of a field in a message

/// A field and where it begins in the text.
struct Field {
  std::string text;
  size_t offset = 0;
};

/// The text, record by record, with the mistakes that were found in it.
class Reader {
 public:
  Reader(std::string_view content, const std::string& name, char separator)
      : content_(content), name_(name), separator_(separator) {
    if (content_.starts_with("\xEF\xBB\xBF")) content_.remove_prefix(3);  // a mark of UTF-8
  }

  /// The fields of the next record that is not empty; false at the end.
  bool next(std::vector<Field>& fields) {
    while (at_ < content_.size() && (content_[at_] == '\n' || content_[at_] == '\r')) ++at_;
    fields.clear();
    if (at_ == content_.size()) return false;
    for (;;) {
      fields.push_back(next_field());
      if (at_ == content_.size()) return !is_open_;
      if (content_[at_++] != separator_) return true;
    }
  }

  void report(size_t offset, const std::string& text) {
    if (++num_mistakes_ > kMaxMistakes) return;
    const auto [line, column] = place_of(offset);
    mistakes_.push_back(fmt::format("{}:{}:{}: {}", name_, line, column, text));
  }

  /// Throws if there were mistakes.
  void finish() {
    if (mistakes_.empty()) return;
    if (num_mistakes_ > mistakes_.size()) {
      mistakes_.push_back(fmt::format("and {} more", num_mistakes_ - mistakes_.size()));
    }
    throw Error(Errc::Corrupt, join(mistakes_, "\n"));
  }

 private:
  bool ends_field(char c) const { return c == separator_ || c == '\n' || c == '\r'; }

  Field next_field() {
    Field field{"", at_};
    if (at_ < content_.size() && content_[at_] == '"') read_quoted(field);
    const size_t begin = at_;
    while (at_ < content_.size() && !ends_field(content_[at_])) ++at_;
    field.text += trim(content_.substr(begin, at_ - begin));
    return field;
  }

  /// Two quotes within quotes are one.
  void read_quoted(Field& field) {
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

  /// CR LF ends one line, and CR alone one, too.
  bool ends_line(size_t offset) const {
    if (content_[offset] == '\r') return !content_.substr(offset + 1).starts_with('\n');
    return content_[offset] == '\n';
  }

  /// Line and column from 1, in characters of UTF-8.
  std::pair<size_t, size_t> place_of(size_t offset) {
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

  std::string_view content_;
  const std::string& name_;
  char separator_;
  size_t at_ = 0;
  bool is_open_ = false;  // a quote was not closed: what it begins is no record
  size_t counted_ = 0, line_ = 1, line_begin_ = 0;  // of place_of()
  std::vector<std::string> mistakes_;
  size_t num_mistakes_ = 0;
};

/// A field as messages show it.
std::string shown(const std::string& text) {
  return "'" + (text.size() <= kMaxShown ? text : text.substr(0, kMaxShown) + "…") + "'";
}

/// Which fields of a record are used, and how.
struct Uses {
  std::vector<size_t> features, targets;
  std::optional<size_t> label;
};

size_t column_called(const std::string& wanted, const std::vector<std::string>& header,
                     const std::string& name) {
  const auto found = std::ranges::find(header, wanted);
  if (found != header.end()) return size_t(found - header.begin());
  throw Error(Errc::InvalidInput, name + " has no column '" + wanted + "'; it has " +
                                      join(header, ", ") + did_you_mean(wanted, header));
}

Uses uses_of(const TableColumns& columns, const std::vector<std::string>& header,
             const std::string& name) {
  if (columns.targets.empty() == columns.label.empty()) {
    throw Error(Errc::InvalidInput, name +
                                        ": say what is to be learnt, with --target COLUMN for "
                                        "numbers or --class COLUMN; its columns are " +
                                        join(header, ", "));
  }
  Uses uses;
  std::vector<bool> taken(header.size());
  const auto take = [&](const std::string& wanted) {
    const size_t column = column_called(wanted, header, name);
    if (taken[column]) {
      throw Error(Errc::InvalidInput,
                  name + ": column '" + wanted + "' is named twice; name each column once");
    }
    taken[column] = true;
    return column;
  };
  for (const std::string& target : columns.targets) uses.targets.push_back(take(target));
  if (!columns.label.empty()) uses.label = take(columns.label);
  for (const std::string& feature : columns.features) uses.features.push_back(take(feature));
  for (size_t i = 0; i < header.size() && columns.features.empty(); ++i) {
    if (!taken[i]) uses.features.push_back(i);
  }
  if (!uses.features.empty()) return uses;
  throw Error(Errc::InvalidInput, name + ": no column is left for a network to read");
}

/// The number in a field, or nothing and a mistake.
std::optional<float> number_in(const Field& field, const std::string& column, Reader& reader) {
  std::string_view text = field.text;
  const auto refuse = [&](const std::string& what) {
    reader.report(field.offset, what + " (column '" + column + "')");
    return std::nullopt;
  };
  if (text.empty()) return refuse("is empty; write a number, or leave the row out");
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument) {
    return refuse(shown(field.text) + " is not a number");
  }
  if (std::isnan(value) || std::isinf(value)) return refuse(shown(field.text) + " is not finite");
  if (error != std::errc() || std::abs(value) > double(std::numeric_limits<float>::max())) {
    return refuse(shown(field.text) + " does not fit into single precision");
  }
  return float(value);
}

bool is_control(char c) { return uint8_t(c) < 0x20 || c == 0x7f; }

/// Whether a field names a class. If not, that is a mistake.
bool names_class(const Field& field, const std::string& column, Reader& reader) {
  if (!field.text.empty() && std::ranges::none_of(field.text, is_control)) return true;
  reader.report(field.offset,
                std::string(field.text.empty() ? "is empty" : "has control characters") +
                    "; write the name of a class (column '" + column + "')");
  return false;
}

/// Whether a field is a text. If not, that is a mistake.
bool is_text(const Field& field, const std::string& column, bool any_bytes, Reader& reader) {
  const bool is_utf8 = any_bytes || find_invalid_utf8(field.text) == std::string::npos;
  const char* what = field.text.empty() ? "is empty; write a text, or leave the row out"
                     : field.text.find('\0') != std::string::npos
                         ? "has a NUL byte, which no text has"
                     : is_utf8 ? nullptr
                               : "is not UTF-8; convert the file with iconv";
  if (what != nullptr) reader.report(field.offset, fmt::format("{} (column '{}')", what, column));
  return what == nullptr;
}

/// The classes of a column in the order in which they come.
struct Classes {
  std::map<std::string, uint32_t> numbers;
  std::vector<uint32_t> of_samples;

  void add(const Field& field, const std::string& column, Reader& reader) {
    if (!names_class(field, column, reader)) return;
    const auto known = numbers.emplace(field.text, uint32_t(numbers.size()));
    of_samples.push_back(known.first->second);
  }

  /// Their names in the order of labels; `of_samples` are labels then.
  std::vector<std::string> sort() {
    std::vector<std::string> names;
    for (const auto& [name, number] : numbers) names.push_back(name);
    names = in_order_of_labels(std::move(names));
    std::vector<uint32_t> label_of(names.size());
    for (size_t label = 0; label < names.size(); ++label) {
      label_of[numbers.at(names[label])] = uint32_t(label);
    }
    for (uint32_t& sample : of_samples) sample = label_of[sample];
    return names;
  }
};

std::vector<std::string> names_of(const std::vector<size_t>& columns,
                                  const std::vector<std::string>& header) {
  std::vector<std::string> names;
  for (const size_t column : columns) names.push_back(header[column]);
  return names;
}

std::vector<std::string> read_header(Reader& reader, const std::string& name) {
  std::vector<Field> fields;
  std::vector<std::string> header;
  if (!reader.next(fields)) {
    reader.finish();
    throw Error(Errc::Corrupt, name + ": is empty");
  }
  for (const Field& field : fields) {
    if (field.text.empty() || std::ranges::any_of(field.text, is_control)) {
      reader.report(field.offset, "the first line names the columns; here a name is missing");
    }
    header.push_back(field.text);
  }
  reader.finish();
  return header;
}

bool fits_header(const std::vector<Field>& fields, const std::vector<std::string>& header,
                 Reader& reader) {
  if (fields.size() == header.size()) return true;
  reader.report(fields[0].offset, fmt::format("the row has {} values, the header {} columns",
                                              fields.size(), header.size()));
  return false;
}

}  // namespace

bool is_table(const std::filesystem::path& file) {
  return file.extension() == ".csv" || file.extension() == ".tsv";
}

char separator_of(const std::filesystem::path& file) {
  return file.extension() == ".tsv" ? '\t' : ',';
}

std::vector<std::string> in_order_of_labels(std::vector<std::string> names) {
  std::ranges::sort(names);
  std::vector<std::pair<int64_t, std::string>> whole;
  for (const std::string& name : names) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), value);
    if (error == std::errc() && end == name.data() + name.size()) whole.emplace_back(value, name);
  }
  if (whole.size() == names.size()) {
    std::ranges::sort(whole);
    std::ranges::transform(whole, names.begin(), &std::pair<int64_t, std::string>::second);
  }
  return names;
}

TextTable parse_text_table(std::string_view content, const std::string& name,
                           const TextColumns& columns, char separator) {
  Reader reader(content, name, separator);
  const std::vector<std::string> header = read_header(reader, name);
  const size_t text = column_called(columns.text, header, name);
  const bool has_classes = !columns.label.empty();
  const size_t label = has_classes ? column_called(columns.label, header, name) : 0;
  if (has_classes && label == text) {
    throw Error(Errc::InvalidInput,
                name + ": column '" + columns.text + "' is named twice; name each column once");
  }
  TextTable table;
  std::vector<Field> fields;
  while (reader.next(fields)) {
    if (!fits_header(fields, header, reader)) continue;
    const bool is_good = is_text(fields[text], header[text], columns.any_bytes, reader);
    if (has_classes && !names_class(fields[label], header[label], reader)) continue;
    if (!is_good) continue;
    table.texts.push_back(std::move(fields[text].text));
    if (has_classes) table.classes.push_back(std::move(fields[label].text));
  }
  reader.finish();
  return table;
}

Table parse_table(std::string_view content, const std::string& name, const TableColumns& columns,
                  char separator) {
  Reader reader(content, name, separator);
  const std::vector<std::string> header = read_header(reader, name);
  const Uses uses = uses_of(columns, header, name);
  std::vector<float> values, targets;
  Classes classes;
  std::vector<Field> fields;
  const auto add = [&](const std::vector<size_t>& from, std::vector<float>& to) {
    for (const size_t column : from) {
      if (const auto value = number_in(fields[column], header[column], reader)) {
        to.push_back(*value);
      }
    }
  };
  const size_t num_rows = size_t(std::ranges::count(content, '\n'));
  values.reserve(std::min(num_rows * uses.features.size(), content.size() / 2));
  targets.reserve(std::min(num_rows * uses.targets.size(), content.size() / 2));
  while (reader.next(fields)) {
    if (!fits_header(fields, header, reader)) continue;
    add(uses.features, values);
    add(uses.targets, targets);
    if (uses.label) classes.add(fields[*uses.label], header[*uses.label], reader);
    if (classes.numbers.size() > kMaxTableClasses) {
      throw Error(Errc::Corrupt, fmt::format("{}: column '{}' has more than {} classes; numbers to "
                                             "learn are named by --target",
                                             name, header[*uses.label], kMaxTableClasses));
    }
  }
  reader.finish();
  Table table;
  table.features = names_of(uses.features, header);
  table.targets = names_of(uses.targets, header);
  table.classes = classes.sort();
  const ImageShape shape = {uint32_t(uses.features.size()), 1, 1};
  table.dataset = uses.label ? make_dataset(shape, uint32_t(table.classes.size()),
                                            std::move(values), std::move(classes.of_samples))
                             : make_dataset(shape, std::move(values), std::move(targets),
                                            uint32_t(uses.targets.size()));
  return table;
}

}  // namespace dlflow::runtime
