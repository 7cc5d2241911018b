#include "engine/supervisor/redacted_output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace dlflow {

RedactedOutput::RedactedOutput(Command& command, const AttemptFiles& files,
                               const Redactor& redactor)
    : metrics_(files, redactor) {
  stop_.reset(::eventfd(0, EFD_CLOEXEC));
  if (!stop_) throw_errno("cannot watch a program's output", errno);
  for (Stream& stream : streams_) stream.redactor = redactor;
  open(streams_[0], command.standard_output);
  open(streams_[1], command.standard_error);
  thread_ = std::thread([this] { copy(); });
}

RedactedOutput::~RedactedOutput() { stop(); }

/// The program opens the pipe by its path: it blocks where our end does not.
void RedactedOutput::open(Stream& stream, std::filesystem::path& destination) {
  stream.path = destination;
  stream.file.reset(::open(destination.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!stream.file) throw_errno("cannot open " + destination.string(), errno);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) throw_errno("cannot make a pipe", errno);
  stream.reader.reset(ends[0]);
  stream.writer.reset(ends[1]);
  destination = "/proc/self/fd/" + std::to_string(stream.writer.get());
}

/// The thread. A program that cannot be listened to any more is not left waiting for that.
void RedactedOutput::copy() {
  try {
    bool is_last = false;
    while (!is_last) {
      pollfd sources[] = {{streams_[0].reader.get(), POLLIN, 0},
                          {streams_[1].reader.get(), POLLIN, 0},
                          {stop_.get(), POLLIN, 0}};
      constexpr int kMetricsPause = 1000;  // milliseconds
      if (::poll(sources, 3, kMetricsPause) < 0) continue;
      metrics_.look();
      is_last = sources[2].revents != 0;
      for (Stream& stream : streams_) {
        while (pass_on(stream) && is_last) {
        }
      }
    }
    for (Stream& stream : streams_)
      write_all(stream.file.get(), stream.redactor.rest(), stream.path);
  } catch (...) {
    failure_ = std::current_exception();
    for (Stream& stream : streams_) stream.reader.reset();
  }
}

/// Some of what is in the pipe; whether there was anything.
bool RedactedOutput::pass_on(Stream& stream) {
  std::array<char, 65536> buffer;
  const ssize_t got = ::read(stream.reader.get(), buffer.data(), buffer.size());
  if (got < 0 && errno == EAGAIN) return false;
  if (got < 0) throw_errno("cannot read a program's output", errno);
  write_all(stream.file.get(), stream.redactor.next({buffer.data(), size_t(got)}), stream.path);
  return true;
}

void RedactedOutput::stop() {
  if (!thread_.joinable()) return;
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
}

void RedactedOutput::finish() {
  stop();
  metrics_.finish();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace dlflow
