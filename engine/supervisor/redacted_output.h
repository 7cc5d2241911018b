#pragma once

#include <array>
#include <chrono>
#include <exception>
#include <filesystem>
#include <string>
#include <thread>

#include "base/handle.h"
#include "base/process.h"
#include "engine/supervisor/launch.h"
#include "engine/supervisor/redact.h"

/// The output and the reports of a program with secrets, on their way into files.
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

/// Stands between a program's standard output and error and their files: a pipe for each, and a
/// thread that passes on what comes, at once and in order, without the secrets. It also looks after
/// the program's metrics.
class RedactedOutput {
 public:
  /// `command`, which is to be started next, gets the pipes in place of its files. Throws Error.
  RedactedOutput(Command& command, const AttemptFiles& files, const Redactor& redactor);
  ~RedactedOutput();

  /// To be called when the program has ended, with all that it started: everything that was
  /// written is in the files then. Throws what kept it from getting there: the program was ended
  /// by SIGPIPE then, when it went on writing.
  void finish();

 private:
  struct Stream {
    std::filesystem::path path;
    Redactor redactor;
    FileDescriptor file;
    FileDescriptor reader;
    FileDescriptor writer;  // ours, so that the reader never is at its end
  };

  void open(Stream& stream, std::filesystem::path& destination);
  void copy();
  static bool pass_on(Stream& stream);
  void stop();

  std::array<Stream, 2> streams_;
  RedactedMetrics metrics_;
  FileDescriptor stop_;  // readable once nothing more will be written
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace dlflow
