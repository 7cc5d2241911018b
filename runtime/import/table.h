#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/dataset.h"

/// Tables as text: CSV with a header (RFC 4180), columns separated by commas or, of .tsv files, by
/// tabs.
namespace dlflow::runtime {

/// The columns of a table by their use. A name that is empty, or a list without any, is not given.
struct TableColumns {
  std::vector<std::string> features;  ///< numbers that a network reads; all others if not given
  std::vector<std::string> targets;   ///< numbers that it learns; or
  std::string label;                  ///< the class that it learns

  bool given() const { return !features.empty() || !targets.empty() || !label.empty(); }
};

struct Table {
  Dataset dataset;  ///< samples of (F, 1, 1) floats with targets or labels
  std::vector<std::string> features, targets;  ///< names, in the order of their numbers
  std::vector<std::string> classes;            ///< names, by label
  std::vector<std::string> notes;  ///< what may be a mistake: a line "`name`:LINE:COLUMN: …" each
};

/// The values in the column of classes that a table may have; more are a mistake.
constexpr size_t kMaxTableClasses = 1 << 16;

/// Reads a table. Labels number the classes in the order of their names, or of their values if all
/// are numbers. Throws Error: InvalidInput if `columns` are none of its header, or two classes are
/// one number; Corrupt with the first 20 mistakes, a line "`name`:LINE:COLUMN: …" each. The numbers
/// take at most twice the memory of `content`.
Table parse_table(std::string_view content, const std::string& name, const TableColumns& columns,
                  char separator = ',');

/// A column of texts, and one of their classes, or none.
struct TextColumns {
  std::string text, label;
};

struct TextTable {
  std::vector<std::string> texts;    ///< none is empty
  std::vector<std::string> classes;  ///< of each text, if they have any
  std::vector<std::string> notes;    ///< as Table::notes
};

/// Reads a table with texts, row by row. Throws as parse_table() does; mistakes are also texts that
/// are empty or have a NUL byte. They need not be UTF-8.
TextTable parse_text_table(std::string_view content, const std::string& name,
                           const TextColumns& columns, char separator = ',');

/// Names of classes, each once, by label: in the order of names, or of their values if all are
/// numbers. Throws Error{InvalidInput}, "`name`: …", if two are one number, as 9 and 9.0 are.
std::vector<std::string> in_order_of_labels(std::vector<std::string> names,
                                            const std::string& name);

/// By the ending of its name.
bool is_table(const std::filesystem::path& file);

/// Throws Error{InvalidInput} for a compressed table and for a file that `python -m dlflow.convert`
/// reads, by the ending of its name.
void refuse_unreadable(const std::filesystem::path& file);
char separator_of(const std::filesystem::path& file);

}  // namespace dlflow::runtime
