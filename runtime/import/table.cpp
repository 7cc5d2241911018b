#include "runtime/import/table.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/text.h"
#include "runtime/data/names.h"

namespace dlflow::runtime {
namespace {

/// The fields of a record that are used, by use.
struct Uses {
  std::vector<std::string> header;
  std::vector<size_t> features, targets;
  std::optional<size_t> label;
  std::vector<Feature> codings = {};  // of the features
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
    throw Error(Errc::InvalidInput,
                name + ": name what to learn, with --target COLUMN for numbers or --class COLUMN" +
                    (columns.targets.empty() ? "" : ", not both") + "; its columns are " +
                    join(header, ", "));
  }
  Uses uses{header, {}, {}, {}, {}};
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
  for (const std::string& given : columns.targets) {
    const bool is_one = std::ranges::count(header, given) > 0;
    const auto targets = is_one ? std::vector{given} : split(given, ',');
    for (const std::string& target : targets) uses.targets.push_back(take(target));
  }
  if (!columns.label.empty()) uses.label = take(columns.label);
  for (const std::string& feature : columns.features) uses.features.push_back(take(feature));
  for (size_t i = 0; i < header.size() && columns.features.empty(); ++i) {
    if (!taken[i]) uses.features.push_back(i);
  }
  if (uses.features.empty()) {
    throw Error(Errc::InvalidInput, name + ": no column is left for a network to read");
  }
  for (const size_t column : uses.features) uses.codings.push_back({header[column]});
  for (const std::string& column : columns.categories) {
    column_called(column, header, name);  // throws if there is none
    const auto feature = std::ranges::find(uses.codings, column, &Feature::column);
    if (feature == uses.codings.end()) {
      throw Error(Errc::InvalidInput,
                  name + ": column '" + column + "' is not a feature; add it to --features");
    }
    feature->kind = Feature::Kind::OneHot;
  }
  if (!columns.known.empty()) uses.codings = columns.known;
  return uses;
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
    if (field.text.empty()) {
      return reader.refuse_missing(field, column, "is empty",
                                   "write the name of a class, or choose --missing drop");
    }
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
  if (header.size() == 1 && header[0].find(';') != std::string::npos) {
    throw_corrupt(name, "its columns are separated by ';'; write tabs: tr ';' '\\t' < " +
                            shell_quote(name) + " > NAME.tsv");
  }
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

using Fields = std::vector<TableField>;

/// Whether a row lacks a value that is used; notes the first such cell.
bool lacks_value(const Fields& fields, const Uses& uses, TableReader& reader) {
  const auto lacks = [&](size_t column, Feature::Kind kind) {
    if (!is_missing(fields[column].text, kind)) return false;
    reader.note(fields[column], uses.header[column], "dropped", missing_text(fields[column].text),
                "such rows are left out");
    return true;
  };
  for (size_t i = 0; i < uses.features.size(); ++i) {
    if (lacks(uses.features[i], uses.codings[i].kind)) return true;
  }
  for (const size_t target : uses.targets) {
    if (lacks(target, Feature::Kind::Number)) return true;
  }
  return uses.label && lacks(*uses.label, Feature::Kind::OneHot);
}

/// Calls `use` with number and fields of each row, except of those that `missing` leaves out.
template <typename Use>
void read_rows(TableReader& reader, const Uses& uses, Missing missing, const Use& use) {
  Fields fields;
  for (size_t row = 1; reader.next(fields); ++row) {
    if (!fits_header(fields, uses.header, reader)) continue;
    if (missing == Missing::Drop && lacks_value(fields, uses, reader)) continue;
    use(row, fields);
  }
}

/// Takes the texts of categories, and means for empty cells, from the rows for training.
/// \param reader  a copy, since mistakes are reported later
void learn_codings(Uses& uses, TableReader reader, const TableColumns& columns,
                   const std::string& name) {
  const size_t most = columns.buckets > 0 ? columns.buckets : kMaxTextNumbers;
  std::vector<std::set<std::string>> texts(uses.codings.size());
  std::vector<double> sums(uses.codings.size()), counts(uses.codings.size());
  size_t num_rows = 0;
  read_rows(reader, uses, columns.missing, [&](size_t row, const Fields& fields) {
    const bool is_divided = columns.shares.given();
    if (is_divided && split_of(std::to_string(row), columns.shares) != Split::Train) return;
    ++num_rows;
    for (size_t i = 0; i < uses.codings.size(); ++i) {
      const TableField& field = fields[uses.features[i]];
      const bool is_number = uses.codings[i].kind == Feature::Kind::Number;
      if (is_missing(field.text, uses.codings[i].kind)) continue;
      ++counts[i];
      if (is_number) sums[i] += double(number_in(field, "", "", reader).value_or(0));
      if (!is_number && texts[i].size() <= most) texts[i].insert(field.text);
    }
  });
  for (size_t i = 0; i < uses.codings.size(); ++i) {
    Feature& coding = uses.codings[i];
    const auto refuse = [&](const std::string& reason) {
      throw Error(Errc::InvalidInput, name + ": column '" + coding.column + "' has " + reason);
    };
    if (columns.missing == Missing::Mean) coding.fill = float(sums[i] / std::max(counts[i], 1.0));
    if (counts[i] == 0 && num_rows > 0) {
      refuse("no value in the rows for training; leave it out with --features");
    }
    if (texts[i].size() <= most) {
      coding.texts.assign(texts[i].begin(), texts[i].end());
    } else if (columns.buckets > 0) {
      coding.kind = Feature::Kind::Hash;
      coding.buckets = columns.buckets;
    } else {
      refuse(fmt::format("more than {} texts; add --hash 64", most));
    }
  }
}

/// Throws if columns of numbers have texts in the first row.
void require_numbers(const Fields& fields, const Uses& uses, TableReader& reader) {
  bool has_texts = false;
  const auto require = [&](size_t place, const char* advice) {
    const auto& [text, offset] = fields[place];
    const std::string& column = uses.header[place];
    if (is_missing(text, Feature::Kind::Number) || number_from<double>(text)) return;
    if (text.find_first_of("+-.0123456789") == 0) return;  // more likely a typing error
    has_texts = true;
    reader.report(offset,
                  fmt::format("{} is not a number (column '{}'); for ", shown_field(text), column) +
                      fmt::format(fmt::runtime(advice), shell_quote(column)));
  };
  for (size_t i = 0; i < uses.features.size(); ++i) {
    if (uses.codings[i].kind != Feature::Kind::Number) continue;
    require(uses.features[i], "texts add --categories {}, or name other --features");
  }
  for (const size_t target : uses.targets) require(target, "classes write --class {}");
  if (has_texts) reader.finish();
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
  const auto refuse = [&](std::initializer_list<const char*> endings, const std::string& advice) {
    if (std::ranges::find(endings, ending) == endings.end()) return;
    throw Error(Errc::InvalidInput, file.string() + advice);
  };
  refuse({".pt", ".pth", ".pkl", ".pickle", ".mat"},
         " can be read only by Python; write its arrays there: np.save('images.npy', ARRAY); for "
         "start_from, python3 -m dlflow.torch.weights " +
             shell_quote(file.string()) + " -o " +
             shell_quote(file.stem().string() + ".safetensors"));
  refuse({".xlsx", ".xls", ".ods", ".feather"}, " is a table of another program; save it as CSV");
  const bool is_parquet = ending == ".parquet";
  const bool is_array = ending == ".h5" || ending == ".hdf5" || ending == ".nc" || ending == ".npz";
  if (!is_parquet && !is_array) return;
  const std::string converted = file.stem().string() + (is_parquet ? ".csv" : ".npy");
  throw Error(Errc::InvalidInput, file.string() + " is read by Python: python -m dlflow.convert " +
                                      shell_quote(file.string()) + " -o " + shell_quote(converted) +
                                      (is_array ? ", with --name ARRAY for each of several" : ""));
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
  Uses uses = uses_of(columns, read_header(reader, content, name), name);
  const bool learns = !columns.categories.empty() || columns.missing == Missing::Mean;
  if (learns && columns.known.empty()) learn_codings(uses, reader, columns, name);
  Table table;
  std::vector<float> values, targets;
  Classes classes;
  const size_t num_rows = size_t(std::ranges::count(content, '\n'));
  values.reserve(std::min(num_rows * uses.features.size(), content.size() / 2));
  targets.reserve(std::min(num_rows * uses.targets.size(), content.size() / 2));
  const std::string remedy = columns.has_answers ? "choose --missing mean or drop"
                                                 : "pack the training rows with --missing mean";
  bool is_first = true;
  read_rows(reader, uses, columns.missing, [&](size_t row, const Fields& fields) {
    const bool learns_columns = columns.known.empty() && columns.has_answers;
    if (std::exchange(is_first, false) && learns_columns) require_numbers(fields, uses, reader);
    for (size_t i = 0; i < uses.features.size(); ++i) {
      append_numbers(uses.codings[i], fields[uses.features[i]], remedy, reader, values);
    }
    for (const size_t column : uses.targets) {
      const auto value =
          number_in(fields[column], uses.header[column], "choose --missing drop", reader);
      if (value) targets.push_back(*value);
    }
    if (uses.label) classes.add(fields[*uses.label], uses.header[*uses.label], reader);
    if (classes.numbers.size() > kMaxTableClasses) {
      throw Error(
          Errc::Corrupt,
          fmt::format(
              "{}: column '{}' has more than {} classes; for numbers to learn, use --target", name,
              uses.header[*uses.label], kMaxTableClasses));
    }
    if (columns.shares.given()) table.rows.push_back(std::to_string(row));
  });
  reader.finish();
  for (const size_t column : uses.targets) table.targets.push_back(uses.header[column]);
  table.classes = classes.sort(name);
  table.notes = reader.notes();
  size_t width = 0;
  for (const Feature& feature : uses.codings) width += feature.num_values();
  table.features = std::move(uses.codings);
  const ImageShape shape = {uint32_t(width), 1, 1};
  table.dataset = uses.label ? make_dataset(shape, uint32_t(table.classes.size()),
                                            std::move(values), std::move(classes.of_samples))
                             : make_dataset(shape, std::move(values), std::move(targets),
                                            uint32_t(uses.targets.size()));
  return table;
}

std::string note_on_constants(const Dataset& rows, const std::vector<Feature>& features) {
  const auto* const values = std::get_if<PixelRows<float>>(&rows.pixels);
  if (values == nullptr || rows.shape.num_values() != rows.shape.channels) return "";
  const std::span<const float> first = (*values)[0];
  std::vector<size_t> constant;
  for (size_t k = 0; k < first.size(); ++k) {
    size_t i = 1;
    while (i < values->size() && (*values)[i][k] == first[k]) ++i;
    if (i == values->size()) constant.push_back(k);
  }
  if (constant.empty()) return "";
  std::string name = "the first";
  size_t end = 0;
  for (const Feature& feature : features) {
    end += feature.num_values();
    if (constant[0] >= end) continue;
    name = "column '" + feature.column + "'";
    break;
  }
  return fmt::format("{} of {} numbers never change, such as that of {}", constant.size(),
                     first.size(), name);
}

}  // namespace dlflow::runtime
