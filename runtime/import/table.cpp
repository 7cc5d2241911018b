#include "runtime/import/table.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "runtime/data/names.h"
#include "runtime/import/table_reader.h"

namespace dlflow::runtime {
namespace {

/// The fields of a record that are used, by use.
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
  if (columns.has_answers && columns.targets.empty() == columns.label.empty()) {
    throw Error(Errc::InvalidInput, name +
                                        ": name what to learn, with --target COLUMN for "
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

/// Single precision has a sign and 24 bits, so it rounds some larger whole numbers. `text`: of the
/// field, without a plus sign.
void note_rounding(const TableField& field, std::string_view text, float rounded,
                   const std::string& column, TableReader& reader) {
  constexpr float kLargest = 1 << 24;
  if (std::abs(rounded) < kLargest || text.find_first_of("eE") != text.npos) return;
  long double exact = 0;  // double has 53 bits
  std::from_chars(text.data(), text.data() + text.size(), exact);
  if (exact != std::floor(exact) || exact == rounded) return;
  reader.note(
      field, column, "rounded",
      fmt::format("{} becomes {:.0f} in single precision", shown_field(field.text), rounded),
      "leave the column out with --features, or subtract a constant, if this matters");
}

/// Returns the number in a field; reports a mistake and returns nothing if there is none.
std::optional<float> number_in(const TableField& field, const std::string& column,
                               TableReader& reader) {
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
    return refuse(shown_field(field.text) + " is not a number");
  }
  if (std::isnan(value) || std::isinf(value))
    return refuse(shown_field(field.text) + " is not finite");
  if (error != std::errc() || std::abs(value) > double(std::numeric_limits<float>::max())) {
    return refuse(shown_field(field.text) + " does not fit into single precision");
  }
  note_rounding(field, text, float(value), column, reader);
  return float(value);
}

/// Whether other programs use `text` for a missing value.
bool looks_missing(std::string text) {
  constexpr std::array<std::string_view, 8> kMissing = {"na",   "n/a",  "nan", "null",
                                                        "none", "<na>", "nil", "?"};
  std::ranges::transform(text, text.begin(), [](char c) { return char(std::tolower(uint8_t(c))); });
  return std::ranges::find(kMissing, text) != kMissing.end();
}

/// Whether a field names a class; reports a mistake if not.
bool names_class(const TableField& field, const std::string& column, TableReader& reader) {
  const std::string mistake = mistake_in_name(field.text);
  if (mistake == "is not UTF-8") {
    reader.report(field.offset,
                  mistake + "; convert the file with iconv (column '" + column + "')");
  } else if (!mistake.empty()) {
    reader.report(field.offset, mistake + "; write the name of a class (column '" + column + "')");
  } else if (looks_missing(field.text)) {
    reader.note(field, column, field.text, shown_field(field.text) + " is a class like any other",
                "leave the row out if its class is not known");
  }
  return mistake.empty();
}

/// Whether a field is a text; reports a mistake if not.
bool is_text(const TableField& field, const std::string& column, TableReader& reader) {
  const char* what = field.text.empty() ? "is empty; write a text, or leave the row out"
                     : field.text.find('\0') != std::string::npos
                         ? "has a NUL byte, which text cannot have"
                         : nullptr;
  if (what != nullptr) reader.report(field.offset, fmt::format("{} (column '{}')", what, column));
  return what == nullptr;
}

/// The classes of a column in order of appearance.
struct Classes {
  std::map<std::string, uint32_t> numbers;
  std::vector<uint32_t> of_samples;

  void add(const TableField& field, const std::string& column, TableReader& reader) {
    if (!names_class(field, column, reader)) return;
    const auto known = numbers.emplace(field.text, uint32_t(numbers.size()));
    of_samples.push_back(known.first->second);
  }

  /// Returns their names in the order of labels, and turns `of_samples` into labels.
  std::vector<std::string> sort(const std::string& table) {
    std::vector<std::string> names;
    for (const auto& [name, number] : numbers) names.push_back(name);
    names = in_order_of_labels(std::move(names), table);
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

std::vector<std::string> read_header(TableReader& reader, std::string_view content,
                                     const std::string& name) {
  if (const std::string what = not_plain_text(content); !what.empty()) {
    throw_corrupt(name, what);
  }
  std::vector<TableField> fields;
  std::vector<std::string> header;
  std::set<std::string> names;
  if (!reader.next(fields)) {
    reader.finish();
    throw_corrupt(name, "is empty");
  }
  for (const TableField& field : fields) {
    if (const std::string mistake = mistake_in_name(field.text); !mistake.empty()) {
      reader.report(field.offset, "the first line names the columns; this name " + mistake);
    } else if (!names.insert(field.text).second) {
      reader.report(field.offset, "a second column is called " + shown_field(field.text) +
                                      "; give each column a name of its own");
    }
    header.push_back(field.text);
  }
  reader.finish();
  return header;
}

bool fits_header(const std::vector<TableField>& fields, const std::vector<std::string>& header,
                 TableReader& reader) {
  if (fields.size() == header.size()) return true;
  reader.report(fields[0].offset,
                fmt::format("the row has {} values, but the header has {} columns", fields.size(),
                            header.size()));
  return false;
}

}  // namespace

bool is_table(const std::filesystem::path& file) {
  return file.extension() == ".csv" || file.extension() == ".tsv";
}

char separator_of(const std::filesystem::path& file) {
  return file.extension() == ".tsv" ? '\t' : ',';
}

void refuse_unreadable(const std::filesystem::path& file) {
  constexpr std::array<std::pair<const char*, const char*>, 4> kPacked = {
      {{".gz", "gunzip"}, {".xz", "unxz"}, {".bz2", "bunzip2"}, {".zst", "unzstd"}}};
  for (const auto& [ending, program] : kPacked) {
    if (file.extension() != ending || !is_table(file.stem())) continue;
    throw Error(Errc::InvalidInput, file.string() + " is a compressed table; unpack it: " +
                                        program + " -k " + shell_quote(file.string()));
  }
  const std::filesystem::path ending = file.extension();
  for (const char* const other : {".pt", ".pth", ".pkl", ".pickle", ".mat"}) {
    if (ending != other) continue;
    throw Error(Errc::InvalidInput, file.string() +
                                        " can be read only by Python; write its arrays "
                                        "there: np.save('images.npy', ARRAY)");
  }
  const bool is_parquet = ending == ".parquet";
  if (!is_parquet && ending != ".h5" && ending != ".hdf5" && ending != ".nc") return;
  const std::string converted = file.stem().string() + (is_parquet ? ".csv" : ".npy");
  throw Error(Errc::InvalidInput, file.string() + " is read by Python: python -m dlflow.convert " +
                                      shell_quote(file.string()) + " -o " + shell_quote(converted));
}

std::vector<std::string> in_order_of_labels(std::vector<std::string> names,
                                            const std::string& table) {
  using Number = std::pair<long double, std::string>;
  std::ranges::sort(names);
  std::vector<Number> numbers;
  for (const std::string& name : names) {
    const auto value = number_from<long double>(name);
    if (!value || !std::isfinite(*value)) return names;
    numbers.emplace_back(*value, name);
  }
  std::ranges::sort(numbers);
  const auto same = std::ranges::adjacent_find(numbers, {}, &Number::first);
  if (same != numbers.end()) {
    throw Error(Errc::InvalidInput, table + ": the classes " + shown_field(same->second) + " and " +
                                        shown_field(std::next(same)->second) +
                                        " are the same number; write it in one way");
  }
  std::ranges::transform(numbers, names.begin(), &Number::second);
  return names;
}

TextTable parse_text_table(std::string_view content, const std::string& name,
                           const TextColumns& columns, char separator) {
  TableReader reader(content, name, separator);
  const std::vector<std::string> header = read_header(reader, content, name);
  const size_t text = column_called(columns.text, header, name);
  const bool has_classes = !columns.label.empty();
  const size_t label = has_classes ? column_called(columns.label, header, name) : 0;
  if (has_classes && label == text) {
    throw Error(Errc::InvalidInput,
                name + ": column '" + columns.text + "' is named twice; name each column once");
  }
  TextTable table;
  std::vector<TableField> fields;
  while (reader.next(fields)) {
    if (!fits_header(fields, header, reader)) continue;
    const bool is_good = is_text(fields[text], header[text], reader);
    if (has_classes && !names_class(fields[label], header[label], reader)) continue;
    if (!is_good) continue;
    table.texts.push_back(std::move(fields[text].text));
    if (has_classes) table.classes.push_back(std::move(fields[label].text));
  }
  reader.finish();
  table.notes = reader.notes();
  return table;
}

Table parse_table(std::string_view content, const std::string& name, const TableColumns& columns,
                  char separator) {
  TableReader reader(content, name, separator);
  const std::vector<std::string> header = read_header(reader, content, name);
  const Uses uses = uses_of(columns, header, name);
  std::vector<float> values, targets;
  Classes classes;
  std::vector<TableField> fields;
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
      throw Error(
          Errc::Corrupt,
          fmt::format(
              "{}: column '{}' has more than {} classes; for numbers to learn, use --target", name,
              header[*uses.label], kMaxTableClasses));
    }
  }
  reader.finish();
  Table table;
  table.features = names_of(uses.features, header);
  table.targets = names_of(uses.targets, header);
  table.classes = classes.sort(name);
  table.notes = reader.notes();
  const ImageShape shape = {uint32_t(uses.features.size()), 1, 1};
  table.dataset = uses.label ? make_dataset(shape, uint32_t(table.classes.size()),
                                            std::move(values), std::move(classes.of_samples))
                             : make_dataset(shape, std::move(values), std::move(targets),
                                            uint32_t(uses.targets.size()));
  return table;
}

}  // namespace dlflow::runtime
