#pragma once

#include <string>
#include <vector>

#include "engine/model/parse.h"
#include "tests/support/catch.h"

namespace dlflow::test {

/// Every Diagnostic that the text of a workflow file w.yaml gets, a line each; "" if it is right.
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

/// The Workflow of a text without mistakes.
inline Workflow workflow_of(const std::string& text, const std::vector<std::string>& set = {}) {
  CHECK(mistakes_of(text, set) == "");
  ParseLimits limits;
  limits.check_files = false;
  return std::get<Workflow>(parse_workflow_text(text, "w.yaml", set, limits));
}

}  // namespace dlflow::test
