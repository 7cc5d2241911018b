#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/import/split_by_name.h"
#include "runtime/import/table_features.h"

/// Tables as text: CSV with a header (RFC 4180); columns are separated by commas, or by tabs in
/// .tsv files.
namespace dlflow::runtime {

/// The columns of a table by their use. An empty name or list means: not given.
struct TableColumns {
  std::vector<std::string> features;         ///< that a network reads; default: all other columns
  std::vector<std::string> targets;          ///< numbers that it learns; or
  std::string label;                         ///< the class that it learns
  bool has_answers = true;                   ///< false: `features` alone, of rows to predict
  std::vector<std::string> categories = {};  ///< features that are texts
  uint32_t buckets = 0;  ///< such a column is hashed if it has more texts; 0: never
  Missing missing = Missing::Refuse;
  SplitShares shares = {};          ///< means and one-hot texts are those of the rows for training
  std::vector<Feature> known = {};  ///< the codings of the training split, for other splits

  bool given() const {
    return !features.empty() || !targets.empty() || !label.empty() || !categories.empty() ||
           missing != Missing::Refuse;
  }
};

struct Table {
  Dataset dataset;                   ///< samples of (F, 1, 1) floats with targets or labels
  std::vector<Feature> features;     ///< in column order, with their codings
  std::vector<std::string> targets;  ///< names, in column order
  std::vector<std::string> classes;  ///< names, by label
  std::vector<std::string> notes;    ///< likely mistakes: a line "`name`:LINE:COLUMN: …" each
  std::vector<std::string> rows;     ///< the number of each sample's row, from 1
};

/// The most classes that a table may have; more are a mistake.
constexpr size_t kMaxTableClasses = 1 << 16;

/// Reads a table. Labels number the classes in the order of their names, or of their values if all
/// are numbers. Throws Error: InvalidInput if `columns` are not in its header, a coding cannot be
/// found, or two classes are the same number; Corrupt with the first 20 mistakes, a line
/// "`name`:LINE:COLUMN: …" each. Numbers of columns without texts take at most twice the memory of
/// `content`.
Table parse_table(std::string_view content, const std::string& name, const TableColumns& columns,
                  char separator = ',');

/// Returns "3 of 784 numbers never change, such as that of column 'km'" for the rows of a table
/// that `features` made; "" if all change, or if the samples are not rows.
std::string note_on_constants(const Dataset& rows, const std::vector<Feature>& features);

/// A column of texts, and optionally one of their classes.
struct TextColumns {
  std::string text, label;
};

struct TextTable {
  std::vector<std::string> texts;    ///< never empty strings
  std::vector<std::string> classes;  ///< class of each text, if they have any
  std::vector<std::string> notes;    ///< as Table::notes
};

/// Reads a table with texts, row by row. Throws like parse_table(); empty texts and texts with a
/// NUL byte are mistakes, too. Texts need not be UTF-8.
TextTable parse_text_table(std::string_view content, const std::string& name,
                           const TextColumns& columns, char separator = ',');

/// Returns the distinct names of classes by label: sorted by name, or by value if all are numbers.
/// Throws Error{InvalidInput}, "`name`: …", if two are the same number, like 9 and 9.0.
std::vector<std::string> in_order_of_labels(std::vector<std::string> names,
                                            const std::string& name);

/// Whether the extension of `file` is that of a table.
bool is_table(const std::filesystem::path& file);

/// Throws Error{InvalidInput} if the extension of `file` is that of a compressed table or of a file
/// that `python -m dlflow.convert` reads.
void refuse_unreadable(const std::filesystem::path& file);
char separator_of(const std::filesystem::path& file);

}  // namespace dlflow::runtime
