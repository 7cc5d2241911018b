#include "engine/report/explain_table.h"

#include <utility>
#include <vector>

#include "base/units.h"

namespace dlflow {
namespace {

struct ExplainedRow {
  JobName job;
  std::string verdict;
  std::string reason;
  size_t elements = 1;

  std::string shown() const {
    return elements == 1 ? job.text() : std::string(job.step()) + " x" + format_count(elements);
  }
};

std::string verdict(const Explanation& explanation) {
  if (!explanation.outcome.empty()) return explanation.outcome;
  if (explanation.verdict == Action::Reuse) return "reused from " + explanation.from;
  return explanation.verdict == Action::DecideLater ? "may be reused" : "runs";
}

}  // namespace

std::string explain_table(std::span<const Explanation> explanations, const Style& style) {
  std::vector<ExplainedRow> rows;
  for (const Explanation& explanation : explanations) {
    ExplainedRow row{explanation.job, verdict(explanation), explanation.reason};
    ExplainedRow* last = rows.empty() ? nullptr : &rows.back();
    const bool same = last != nullptr && last->job.step() == row.job.step() &&
                      last->verdict == row.verdict && last->reason == row.reason;
    if (same) {
      ++last->elements;
    } else {
      rows.push_back(std::move(row));
    }
  }
  std::vector<std::vector<std::string>> table;
  for (const ExplainedRow& row : rows) table.push_back({row.shown(), row.verdict});
  const size_t indent = columns_width(table) + 2;
  const size_t room = style.width > int(indent) + 20 ? size_t(style.width) - indent : 20;
  table.clear();
  for (const ExplainedRow& row : rows) {
    std::vector<std::string> cells = {row.shown(), row.verdict};
    for (std::string& part : wrap(row.reason, room)) {
      cells.push_back(std::move(part));
      table.push_back(std::move(cells));
      cells = {"", ""};
    }
  }
  return columns(table, std::vector(3, Align::Left));
}

}  // namespace dlflow
