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

/// The names of the columns, and which of them begin with a number.
struct TableHead {
  std::vector<std::string> names;
  std::set<std::string> numbers;
};

TableHead head_of(std::string_view content, const std::string& name, char separator) {
  runtime::TableReader reader(content, name, separator);
  std::vector<runtime::TableField> header, row;
  reader.next(header);
  reader.next(row);
  TableHead head;
  for (size_t i = 0; i < header.size(); ++i) {
    head.names.push_back(header[i].text);
    if (i < row.size() && number_from<double>(row[i].text)) head.numbers.insert(header[i].text);
  }
  return head;
}

/// The column to learn: that of --target, or the answer.
std::string target_of(const InitRequest& request, const TableHead& head) {
  const std::string source = request.source.string();
  const std::string has = source + " has the columns " + join(head.names, ", ");
  std::string target = request.target;
  if (target.empty() && request.ask) target = request.ask(has + ". Which one is to be learnt?");
  if (!target.empty()) return target;
  throw Error(Errc::InvalidInput, has + "; name the one to learn: dlflow init " +
                                      shell_quote(source) + " --target " +
                                      shell_quote(head.names.empty() ? "" : head.names.back()));
}

/// A few whole numbers are classes, in most tables.
bool are_classes(const runtime::Dataset& rows) {
  constexpr size_t kFew = 10;
  std::set<float> different;
  for (size_t i = 0; i < rows.size() && different.size() <= kFew; ++i) {
    if (std::floor(rows.targets[i][0]) != rows.targets[i][0]) return false;
    different.insert(rows.targets[i][0]);
  }
  return different.size() <= kFew;
}

/// A column to learn, and those to learn it from.
struct LearntTable {
  runtime::TableColumns columns;
  runtime::Table table;
  std::vector<std::string> left_out;
};

/// Throws Error for mistakes in the table.
LearntTable read_learnt(std::string_view content, const std::string& name, char separator,
                        const TableHead& head, const std::string& target) {
  LearntTable learnt;
  runtime::TableColumns& columns = learnt.columns;
  for (const std::string& column : head.names) {
    if (column == target) continue;
    (head.numbers.contains(column) ? columns.features : learnt.left_out).push_back(column);
  }
  const auto parse = [&] { return runtime::parse_table(content, name, columns, separator); };
  const bool is_text =
      std::ranges::count(head.names, target) == 1 && !head.numbers.contains(target);
  if (!is_text) {
    columns.targets = {target};
    learnt.table = parse();
    if (!are_classes(learnt.table.dataset)) return learnt;
    columns.targets.clear();
  }
  columns.label = target;
  learnt.table = parse();
  return learnt;
}

}  // namespace

std::vector<InitFile> init_table(const InitRequest& request) {
  const std::string name = request.source.string();
  const char separator = runtime::separator_of(request.source);
  const SharedBytes content = map_file(request.source);
  const TableHead head = head_of(content.view, name, separator);
  const std::string target = target_of(request, head);
  const LearntTable learnt = read_learnt(content.view, name, separator, head, target);
  const bool has_classes = !learnt.columns.label.empty();
  std::string text = "  # Learns the " + std::string(has_classes ? "class " : "number ") + target +
                     " from columns of numbers, each scaled to mean 0 and deviation 1\n";
  std::string options = (has_classes ? ", --class, " : ", --target, ") + yaml_quote(target);
  if (!learnt.left_out.empty()) {
    text += "  # Left out, since they hold no numbers: " + join(learnt.left_out, ", ") + "\n";
    options += ", --features, " + yaml_quote(join(learnt.columns.features, ","));
  }
  TrainingData data = training_data_of(learnt.table.dataset);
  const std::string share = test_share_option(data.samples);
  data.has_test = !share.empty();
  text += packing_step(named_by_workflow(request.source, request.workflow), options + share);
  return training_files(request, data, text, kPackedData);
}

}  // namespace dlflow
