#include "engine/report/explain_table.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
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
  switch (explanation.verdict) {
    case Action::Reuse:
      return "reused from " + explanation.from;
    case Action::DecideLater:
      return "may be reused";
    case Action::Run:
      break;
  }
  return "runs";
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
  size_t names = 0;
  size_t verdicts = 0;
  for (const ExplainedRow& row : rows) {
    names = std::max(names, display_width(row.shown()));
    verdicts = std::max(verdicts, display_width(row.verdict));
  }
  std::string text;
  const size_t indent = names + verdicts + 4;
  const size_t room = style.width > int(indent) + 20 ? size_t(style.width) - indent : 20;
  for (const ExplainedRow& row : rows) {
    const auto lines = wrap(row.reason, room);
    text +=
        pad(row.shown(), names) + "  " + pad(row.verdict, verdicts) + "  " + lines.front() + "\n";
    for (size_t i = 1; i < lines.size(); ++i) text += std::string(indent, ' ') + lines[i] + "\n";
  }
  return text;
}

}  // namespace dlflow
