#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "engine/supervisor/launch.h"
#include "engine/supervisor/redact.h"

/// The reports of a program with secrets, on their way into the files that dlflow reads.
namespace dlflow {

/// Copies what a program writes to AttemptFiles::given_metrics() to metrics(), without the secrets:
/// others read that while the program runs.
class RedactedMetrics {
 public:
  /// The program finds the lines of earlier passes. Throws Error.
  RedactedMetrics(const AttemptFiles& files, Redactor redactor);

  /// Passes on whole lines, if the last look is a second ago. What cannot be read now is left for
  /// the next look.
  void look();

  /// Passes on all that is there; the program's own file is gone then. Throws Error.
  void finish();

 private:
  void pass_on(const std::string& text);

  std::filesystem::path given_, shown_;
  Redactor redactor_;
  std::string passed_on_;  // of given_, whole lines
  std::chrono::steady_clock::time_point last_look_{};
};

/// Takes secrets out of what dlflow reads at a program's end: $DLFLOW_SUMMARY and outputs.json. One
/// that holds none is left as it is.
void redact_reports(const AttemptFiles& files, const Redactor& redactor);

}  // namespace dlflow
