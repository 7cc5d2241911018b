#pragma once

#include <array>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>

#include "base/handle.h"
#include "base/process.h"
#include "engine/supervisor/launch.h"
#include "engine/supervisor/redact.h"

/// The output of a program, and the reports of one with secrets, on their way into files.
namespace dlflow {

/// Copies what a program writes to AttemptFiles::given_metrics() to metrics(), without the secrets:
/// others read that while the program runs.
class RedactedMetrics {
 public:
  /// The program finds the lines of earlier passes. Throws Error.
  RedactedMetrics(const AttemptFiles& files, Redactor redactor);

  /// Passes on whole lines, and leaves for the next look those that it cannot read now.
  void look();

  /// Passes on all that is there; the program's own file is gone then. Throws Error.
  void finish();

 private:
  void pass_on(const std::string& text);

  std::filesystem::path given_, shown_;
  Redactor redactor_;
  std::string passed_on_;  // of given_, whole lines
};

/// Takes secrets out of what dlflow reads at a program's end: $DLFLOW_SUMMARY and outputs.json. One
/// that holds none is left as it is.
void redact_reports(const AttemptFiles& files, const Redactor& redactor);

/// Stands between a program's standard output and error and their files: a pipe for each. What
/// comes is passed on at once and in order, without the secrets. A program may open a pipe again,
/// as `echo x > /dev/stdout` does; a file would lose what it holds. With secrets, the program's
/// metrics pass through here, too.
class ProgramOutput {
 public:
  /// `command`, which is to be started next, gets the pipes in place of its files. Throws Error.
  ProgramOutput(Command& command, const AttemptFiles& files, const Secrets& secrets);

  /// Readable when there is something to take().
  int descriptor() const { return ready_.get(); }

  /// Passes on some of what is there. A program that cannot be listened to any more is not left
  /// waiting for that: it gets SIGPIPE when it goes on writing.
  void take();

  /// To be called when the program has ended, with all that it started: everything that was
  /// written is in the files then. Throws what kept it from getting there.
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
  void wake_for(int descriptor);
  static bool pass_on(Stream& stream);

  std::array<Stream, 2> streams_;
  FileDescriptor ready_;  // an epoll of the readers and the timer
  FileDescriptor timer_;  // of the metrics
  std::optional<RedactedMetrics> metrics_;
  std::exception_ptr failure_;
};

}  // namespace dlflow
