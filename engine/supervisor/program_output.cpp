#include "engine/supervisor/program_output.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/handle.h"
#include "base/parse_json.h"
#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// JSON has several forms for some characters, so it is parsed first; other content is treated as
/// text.
std::string redacted(const std::string& text, const Redactor& redactor) {
  const Json json = parse_json(text);
  if (json.is_discarded()) return redactor.text(text);
  const Json clean = redactor.json(json);
  return clean == json ? text : clean.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string redacted_lines(const std::string& text, const Redactor& redactor) {
  std::vector<std::string> lines = split(text, '\n');
  for (std::string& line : lines) line = redacted(line, redactor);
  return join(lines, "\n");
}

void replace_file(const fs::path& file, const Redactor& redactor) {
  const auto text = read_file_if_exists(file);
  if (!text) return;
  const std::string clean = redacted(*text, redactor);
  if (clean != *text) write_file_atomic(file, clean);
}

void append_to(const fs::path& file, const std::string& text) {
  const FileDescriptor opened = open_or_throw(file, O_WRONLY | O_CREAT | O_APPEND);
  write_all(opened.get(), text, file);
}

}  // namespace

ProgramOutput::ProgramOutput(Command& command, const AttemptFiles& files, const Secrets& secrets)
    : ready_(::epoll_create1(EPOLL_CLOEXEC)) {
  open(streams_[0], command.standard_output);
  open(streams_[1], command.standard_error);
  if (secrets.empty()) return;
  const Redactor redactor(secrets);
  for (Stream& stream : streams_) stream.redactor = redactor;
  metrics_.emplace(files, redactor);
  timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  constexpr itimerspec kEachSecond{{1, 0}, {1, 0}};
  ::timerfd_settime(timer_.get(), 0, &kEachSecond, nullptr);
  wake_for(timer_.get());
}

/// The program opens the pipe by its path: its end blocks, this one does not.
void ProgramOutput::open(Stream& stream, std::filesystem::path& destination) {
  stream.path = destination;
  stream.file = open_or_throw(destination, O_WRONLY | O_CREAT | O_APPEND);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) throw_errno("cannot make a pipe", errno);
  stream.reader.reset(ends[0]);
  stream.writer.reset(ends[1]);
  wake_for(stream.reader.get());
  destination = "/proc/self/fd/" + std::to_string(stream.writer.get());
}

void ProgramOutput::wake_for(int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(ready_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
    throw_errno("cannot watch a program's output", errno);
  }
}

/// Reads some of the pipe's content; whether there was any.
bool ProgramOutput::pass_on(Stream& stream) {
  std::array<char, 65536> buffer;
  const ssize_t got = ::read(stream.reader.get(), buffer.data(), buffer.size());
  if (got < 0 && errno == EAGAIN) return false;
  if (got < 0) throw_errno("cannot read a program's output", errno);
  write_all(stream.file.get(), stream.redactor.next({buffer.data(), size_t(got)}), stream.path);
  return true;
}

void ProgramOutput::take() {
  if (failure_) return;
  try {
    for (Stream& stream : streams_) pass_on(stream);
    uint64_t ticks = 0;
    if (metrics_ && ::read(timer_.get(), &ticks, sizeof ticks) > 0) metrics_->look();
  } catch (...) {
    failure_ = std::current_exception();
    for (Stream& stream : streams_) stream.reader.reset();
  }
}

void ProgramOutput::finish() {
  for (Stream& stream : streams_) {
    if (failure_) break;
    while (pass_on(stream)) {
    }
    write_all(stream.file.get(), stream.redactor.rest(), stream.path);
  }
  if (metrics_) metrics_->finish();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

RedactedMetrics::RedactedMetrics(const AttemptFiles& files, Redactor redactor)
    : given_(files.given_metrics()), shown_(files.metrics()), redactor_(std::move(redactor)) {
  passed_on_ = read_file_if_exists(shown_).value_or("");
  write_file(given_, passed_on_);
}

/// Usually the file has grown; a program may also rewrite it.
void RedactedMetrics::pass_on(const std::string& text) {
  if (text == passed_on_) return;
  if (text.starts_with(passed_on_)) {
    append_to(shown_, redacted_lines(text.substr(passed_on_.size()), redactor_));
  } else {
    write_file_atomic(shown_, redacted_lines(text, redactor_));
  }
  passed_on_ = text;
}

void RedactedMetrics::look() {
  try {
    const std::string text = read_file_if_exists(given_).value_or(passed_on_);
    pass_on(text.substr(0, text.rfind('\n') + 1));
  } catch (const std::exception&) {
  }
}

void RedactedMetrics::finish() {
  if (const auto text = read_file_if_exists(given_)) pass_on(*text);
  std::error_code ignored;
  fs::remove(given_, ignored);
}

void redact_reports(const AttemptFiles& files, const Redactor& redactor) {
  replace_file(files.summary(), redactor);
  replace_file(files.outputs_file(), redactor);
}

}  // namespace dlflow
