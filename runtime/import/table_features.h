#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/import/table_reader.h"

/// Cells of a table as numbers that a network reads.
namespace dlflow::runtime {

/// The most numbers of a column of texts.
constexpr uint32_t kMaxTextNumbers = 1 << 10;

/// The treatment of rows with cells that lack a value.
enum class Missing { Refuse, Mean, Drop };

/// A column that a network reads, as a number, or as several of which one is 1 and the others 0.
struct Feature {
  enum class Kind { Number, OneHot, Hash };
  std::string column;
  Kind kind = Kind::Number;
  std::vector<std::string> texts = {};  ///< OneHot: sorted; each has a number, in this order
  uint32_t buckets = 0;                 ///< Hash: hash_of(text) % buckets is the text's number
  /// If given, cells may be empty: the number that replaces them. For texts, all numbers are 0.
  std::optional<float> fill = {};

  size_t num_values() const;
  bool operator==(const Feature&) const = default;
};

/// Returns its line in columns.txt: "feature km", "feature age {"empty":29.7}", "feature town
/// {"one_hot":["Bonn","Ulm"]}" or "feature name {"hash":64}".
std::string line_of(const Feature& feature);

/// Returns the features in such lines; skips other lines.
std::vector<Feature> features_of(const std::vector<std::string>& lines);

/// Whether a cell lacks a value: it is empty, or other programs write it so in columns of numbers
/// ("NA", "nan", "?").
bool is_missing(const std::string& text, Feature::Kind kind);

/// "is empty", or "'n/a' is not a number".
std::string missing_text(const std::string& text);

/// Returns the number in a field; reports a mistake and returns nothing if there is none.
/// \param remedy  what accepts a cell without a value: "choose --missing drop"
std::optional<float> number_in(const TableField& field, const std::string& column,
                               const std::string& remedy, TableReader& reader);

/// Whether a field names a class; reports a mistake if not.
bool names_class(const TableField& field, const std::string& column, TableReader& reader);

/// Appends the numbers of a cell to `values`, or reports a mistake. \param remedy  as of number_in
void append_numbers(const Feature& feature, const TableField& field, const std::string& remedy,
                    TableReader& reader, std::vector<float>& values);

}  // namespace dlflow::runtime
