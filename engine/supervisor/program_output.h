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

/// Writes a program's output to files, and its reports without its secrets.
namespace dlflow {

/// Copies the metrics that a program writes to AttemptFiles::given_metrics() to metrics(), without
/// the secrets: others read that while the program runs.
class RedactedMetrics {
 public:
  /// Writes the lines of earlier passes into the program's file. Throws Error.
  RedactedMetrics(const AttemptFiles& files, Redactor redactor);

  /// Copies whole lines; lines that cannot be read now are left for the next call.
  void look();

  /// Copies the rest, and removes the program's own file. Throws Error.
  void finish();

 private:
  void pass_on(const std::string& text);

  std::filesystem::path given_, shown_;
  Redactor redactor_;
  std::string passed_on_;  // of given_, whole lines
};

/// Removes secrets from the files that dlflow reads at a program's end: $DLFLOW_SUMMARY and
/// outputs.json. A file without secrets stays as it is.
void redact_reports(const AttemptFiles& files, const Redactor& redactor);

/// Pipes between a program's standard output and error and their files. Output is passed on at once
/// and in order, without the secrets. A program may open a pipe again, as `echo x > /dev/stdout`
/// does; a file would lose its content. With secrets, the program's metrics also pass through here.
class ProgramOutput {
 public:
  /// Gives `command`, which is to be started next, the pipes instead of its files. Throws Error.
  ProgramOutput(Command& command, const AttemptFiles& files, const Secrets& secrets);

  /// Readable when take() has something to do.
  int descriptor() const { return ready_.get(); }

  /// Passes on some of the pipes' content. If a pipe cannot be read any more, the program does not
  /// block: it gets SIGPIPE when it writes.
  void take();

  /// Call it when the program and all its processes have ended: all output is in the files then.
  /// Throws the error that prevented this.
  void finish();

 private:
  struct Stream {
    std::filesystem::path path;
    Redactor redactor;
    FileDescriptor file;
    FileDescriptor reader;
    FileDescriptor
        writer;  // a writing end of this process, so that the reader never reaches the end
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
