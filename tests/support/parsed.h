#pragma once

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "engine/model/parse.h"

namespace dlflow::test {

/// Parses `text` as a workflow in `folder`/workflow.yaml. Throws Error with its first mistake.
inline Workflow parsed(const std::string& text, const std::filesystem::path& folder = "/tmp",
                       const std::vector<std::string>& set = {}) {
  auto result = parse_workflow_text(text, folder / "workflow.yaml", set);
  if (const auto* mistakes = std::get_if<Diagnostics>(&result)) {
    throw Error(Errc::InvalidInput, to_string(mistakes->front()));
  }
  return std::get<Workflow>(std::move(result));
}

}  // namespace dlflow::test
