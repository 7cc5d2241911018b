#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "engine/batch/tool_runner.h"
#include "tests/support/temp_dir.h"

namespace dlflow::test {

/// "accepted 812", "refused: …", "unclear: …"
inline std::string text(const SubmitAnswer& answer) {
  if (const auto* accepted = std::get_if<Accepted>(&answer)) return "accepted " + accepted->id;
  if (const auto* refused = std::get_if<Refused>(&answer)) {
    return (refused->too_many ? "too many: " : "refused: ") + refused->message;
  }
  return "unclear: " + std::get<Unclear>(answer).message;
}

/// The programs of a batch system as small scripts in a folder. Each call adds a line to a log.
class ToolScripts {
 public:
  void tool(const std::string& name, const std::string& lines) const {
    folder_.write_program(
        name, "#!/bin/sh\necho \"" + name + " $*\" >> " + path("calls") + "\n" + lines + "\n");
  }

  std::vector<std::string> calls() const {
    std::vector<std::string> lines = split(read_file_if_exists(path("calls")).value_or(""), '\n');
    lines.pop_back();
    return lines;
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  std::vector<std::chrono::milliseconds> pauses;

 protected:
  /// Options with the scripts first in PATH, and `variables`.
  ToolOptions options(int tries, std::vector<std::string> variables,
                      std::chrono::milliseconds time_limit = std::chrono::seconds(10)) {
    variables.push_back("PATH=" + folder_.path().string() + ":/usr/bin:/bin");
    return {.time_limit = time_limit,
            .tries = tries,
            .first_pause = std::chrono::seconds(1),
            .sleep = [this](std::chrono::milliseconds pause) { pauses.push_back(pause); },
            .environment = std::move(variables)};
  }

  TempDir folder_;
};

}  // namespace dlflow::test
