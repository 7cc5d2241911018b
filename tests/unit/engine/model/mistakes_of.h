#pragma once

#include <regex>
#include <string>
#include <vector>

#include "engine/model/parse.h"
#include "tests/support/answers.h"

namespace dlflow::test {

/// Returns every Diagnostic for the text of a workflow file w.yaml, one a line; "" if it is valid.
inline std::string mistakes_of(const std::string& text, const std::vector<std::string>& set = {},
                               ParseLimits limits = {}) {
  limits.check_files = false;
  const auto result = parse_workflow_text(text, "w.yaml", set, limits);
  const auto* diagnostics = std::get_if<Diagnostics>(&result);
  std::string lines;
  if (diagnostics == nullptr) return lines;
  for (const Diagnostic& diagnostic : *diagnostics) {
    lines += (lines.empty() ? "" : "\n") + to_string(diagnostic);
  }
  return lines;
}

/// Returns only LINE:COLUMN and the message of each error.
inline std::string answer_to(const std::string& text, const std::vector<std::string>& set = {},
                             const ParseLimits& limits = {}) {
  static const std::regex kHead("(^|\\n)w\\.yaml:([0-9]+:[0-9]+:) error:");
  return std::regex_replace(mistakes_of(text, set, limits), kHead, "$1$2");
}

/// Checks the answer to each text.
inline void check_mistakes(std::initializer_list<Answered<std::string>> cases) {
  check_answers([](const std::string& text) { return answer_to(text); }, cases);
}

/// Returns the Workflow of a valid text.
inline Workflow workflow_of(const std::string& text, const std::vector<std::string>& set = {}) {
  CHECK(mistakes_of(text, set) == "");
  ParseLimits limits;
  limits.check_files = false;
  return std::get<Workflow>(parse_workflow_text(text, "w.yaml", set, limits));
}

}  // namespace dlflow::test
