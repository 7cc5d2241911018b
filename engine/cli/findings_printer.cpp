#include "engine/cli/findings_printer.h"

#include <cstdio>

namespace dlflow {

using Kind = Finding::Kind;

FindingsPrinter::FindingsPrinter(Session& session, Json& list, std::string node_class)
    : session_(session), list_(list), node_class_(std::move(node_class)), style_(session.style()) {}

void FindingsPrinter::head(const std::string& profile, const std::string& place) const {
  if (session_.json) return;
  const std::string of_class = node_class_.empty() ? "" : ", class " + node_class_;
  std::printf("%s%s: %s\n", profile.c_str(), of_class.c_str(), place.c_str());
}

void FindingsPrinter::add(const Finding& finding) const {
  const JobState state = finding.kind == Kind::Works   ? JobState::Succeeded
                         : finding.kind == Kind::Fails ? JobState::Failed
                                                       : JobState::Planned;
  if (finding.kind != Kind::Works) session_.status = kStepFailed;
  const char* word = finding.kind == Kind::Works   ? "works"
                     : finding.kind == Kind::Fails ? "fails"
                                                   : "unknown";
  list_.push_back({{"class", node_class_.empty() ? Json() : Json(node_class_)},
                   {"finding", word},
                   {"text", finding.text},
                   {"advice", finding.advice.empty() ? Json() : Json(finding.advice)}});
  if (session_.json) return;
  if (finding.kind == Kind::Works && session_.quiet) return;
  const std::string mark(symbol(state, style_));
  std::printf("  %s %s\n", paint(state, mark, style_).c_str(), finding.text.c_str());
  if (!finding.advice.empty()) std::printf("      %s\n", finding.advice.c_str());
}

void FindingsPrinter::add(Kind kind, const std::string& text, const std::string& advice) const {
  add(Finding{kind, text, advice});
}

void FindingsPrinter::add_all(const std::vector<Finding>& findings) const {
  for (const Finding& finding : findings) add(finding);
}

void FindingsPrinter::interrupted(const std::string& line) const {
  std::fprintf(stderr, "  %s\n", line.c_str());
  session_.status = kInterrupted;
}

void FindingsPrinter::progress(const std::string& line) const {
  if (!session_.quiet) std::fprintf(stderr, "  %s\n", line.c_str());
}

}  // namespace dlflow
