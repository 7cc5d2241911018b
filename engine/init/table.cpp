#include "runtime/import/table.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/shared_bytes.h"
#include "base/text.h"
#include "engine/init/training.h"
#include "engine/init/workflow_text.h"
#include "runtime/import/table_reader.h"

/// Tables: a network learns one column from those that hold numbers.
namespace dlflow {
namespace {

using runtime::TableField;

/// A column, by a look at its values.
struct ColumnValues {
  std::string name;
  size_t numbers = 0, whole = 0, others = 0;
  std::set<std::string> different = {};  // the first few

  static constexpr size_t kFew = 10;

  void add(const std::string& text) {
    const auto value = number_from<double>(text);
    numbers += value ? 1 : 0;
    whole += value && std::floor(*value) == *value ? 1 : 0;
    others += value ? 0 : 1;
    if (different.size() <= kFew) different.insert(text);
  }

  /// Single values that are no numbers are mistakes, which `dlflow data pack` tells.
  bool has_numbers() const { return numbers > others; }

  /// A class is a word, or one of a few whole numbers.
  bool has_classes() const {
    return !has_numbers() || (whole == numbers && different.size() <= kFew);
  }
};

std::vector<ColumnValues> columns_of(std::string_view content, const std::string& name,
                                     char separator) {
  runtime::TableReader reader(content, name, separator);
  std::vector<TableField> fields;
  std::vector<ColumnValues> columns;
  if (!reader.next(fields)) return columns;
  for (const TableField& field : fields) columns.push_back({field.text});
  while (reader.next(fields)) {
    for (size_t i = 0; i < std::min(fields.size(), columns.size()); ++i) {
      columns[i].add(fields[i].text);
    }
  }
  return columns;
}

std::vector<std::string> names_of_columns(const std::vector<ColumnValues>& columns) {
  std::vector<std::string> names;
  for (const ColumnValues& column : columns) names.push_back(column.name);
  return names;
}

/// The column to learn: that of --target, or the answer.
const ColumnValues& target_of(const InitRequest& request,
                              const std::vector<ColumnValues>& columns) {
  const std::vector<std::string> names = names_of_columns(columns);
  const std::string source = request.source.string();
  const std::string has = source + " has the columns " + join(names, ", ");
  std::string target = request.target;
  if (target.empty() && request.ask && !names.empty()) {
    target = request.ask(has + ". Which one is to be learnt?");
  }
  const auto found = std::ranges::find(columns, target, &ColumnValues::name);
  if (found != columns.end()) return *found;
  if (!target.empty()) {
    throw Error(Errc::InvalidInput, source + " has no column '" + target + "'; it has " +
                                        join(names, ", ") + did_you_mean(target, names));
  }
  throw Error(Errc::InvalidInput, has + "; name the one to learn: dlflow init " +
                                      shell_quote(source) + " --target " +
                                      shell_quote(names.empty() ? "COLUMN" : names.back()));
}

/// The options of `dlflow data pack`, and what the workflow says about the choice.
struct TableChoice {
  runtime::TableColumns columns;
  std::string options, comment;
};

TableChoice choose(const std::vector<ColumnValues>& columns, const ColumnValues& target) {
  TableChoice choice;
  std::vector<std::string> left_out;
  for (const ColumnValues& column : columns) {
    if (column.name == target.name) continue;
    (column.has_numbers() ? choice.columns.features : left_out).push_back(column.name);
  }
  const std::string quoted = yaml_quote(target.name);
  if (target.has_classes()) {
    choice.columns.label = target.name;
    choice.options = ", --class, " + quoted;
    choice.comment = "  # Learns the class " + target.name;
  } else {
    choice.columns.targets = {target.name};
    choice.options = ", --target, " + quoted;
    choice.comment = "  # Learns the number " + target.name;
  }
  choice.comment += " from the columns of numbers, each scaled to mean 0 and deviation 1.\n";
  if (left_out.empty()) return choice;
  choice.options += ", --features, " + yaml_quote(join(choice.columns.features, ","));
  choice.comment += "  # Left out, since they hold no numbers: " + join(left_out, ", ") + "\n";
  return choice;
}

}  // namespace

std::vector<InitFile> init_table(const InitRequest& request) {
  const std::string name = request.source.string();
  const char separator = runtime::separator_of(request.source);
  const auto content = map_file(request.source);
  const std::vector<ColumnValues> columns = columns_of(content.view, name, separator);
  const TableChoice choice = choose(columns, target_of(request, columns));
  const runtime::Table table =
      runtime::parse_table(content.view, name, choice.columns, separator);  // throws for mistakes
  TrainingData data = training_data_of(table.dataset);
  data.has_test = !test_share_option(data.samples).empty();
  const std::string step = packing_step(named_by_workflow(request.source, request.workflow),
                                        choice.options + test_share_option(data.samples));
  return training_files(request, data, choice.comment + step, kPackedData);
}

}  // namespace dlflow
