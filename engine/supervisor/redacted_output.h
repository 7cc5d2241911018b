#pragma once

#include <array>
#include <exception>
#include <filesystem>
#include <thread>

#include "base/handle.h"
#include "base/process.h"
#include "engine/supervisor/redact.h"
#include "engine/supervisor/redacted_reports.h"

/// The output of a program with secrets, on its way into files.
namespace dlflow {

/// Stands between a program's standard output and error and their files: a pipe for each, and a
/// thread that passes on what comes, at once and in order, without the secrets. It also looks after
/// the program's metrics.
class RedactedOutput {
 public:
  /// `command`, which is to be started next, gets the pipes in place of its files. Throws Error.
  RedactedOutput(Command& command, const AttemptFiles& files, const Redactor& redactor);
  RedactedOutput(const RedactedOutput&) = delete;
  RedactedOutput& operator=(const RedactedOutput&) = delete;
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
