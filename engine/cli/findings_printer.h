#pragma once

#include <string>
#include <vector>

#include "engine/batch/probe.h"
#include "engine/cli/session.h"

namespace dlflow {

/// Prints findings, each with a mark and its advice, and collects them for `--json`.
class FindingsPrinter {
 public:
  /// \param list  receives every finding. \param node_class  of the profile; may be empty
  FindingsPrinter(Session& session, Json& list, std::string node_class = "");

  /// Prints the line above the findings.
  void head(const std::string& profile, const std::string& place) const;

  /// Sets the session's status unless the finding is that something works.
  void add(const Finding& finding) const;
  void add(Finding::Kind kind, const std::string& text, const std::string& advice = "") const;
  void add_all(const std::vector<Finding>& findings) const;

  void interrupted(const std::string& line) const;
  void progress(const std::string& line) const;

 private:
  Session& session_;
  Json& list_;
  std::string node_class_;
  Style style_;
};

}  // namespace dlflow
