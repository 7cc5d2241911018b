#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/parse_json.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAttemptPrefix = "attempt-";

std::optional<int> attempt_number(std::string_view folder) {
  if (!folder.starts_with(kAttemptPrefix)) return std::nullopt;
  folder.remove_prefix(kAttemptPrefix.size());
  return number_from<int>(folder);
}

/// Returns the bytes after `offset`; empty if there is no such file.
std::string read_from(const fs::path& file, uint64_t offset) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 30;
  const FileDescriptor descriptor(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!descriptor) {
    if (errno == ENOENT || errno == ENOTDIR) return {};
    throw_errno("cannot open " + file.string(), errno);
  }
  // The job's program can write here, and the run may belong to another user: trust nothing.
  struct stat info {};
  if (::fstat(descriptor.get(), &info) != 0) throw_errno("cannot read " + file.string(), errno);
  if (!S_ISREG(info.st_mode)) {
    throw Error(Errc::Corrupt, file.string() + " is a pipe or a device, not a record");
  }
  if (uint64_t(info.st_size) > offset + kMostBytes) {
    throw Error(Errc::Corrupt, file.string() + " is larger than any record: " +
                                   format_size(uint64_t(info.st_size)));
  }
  std::string content(uint64_t(info.st_size) - std::min(uint64_t(info.st_size), offset), '\0');
  size_t used = 0;
  while (used < content.size()) {
    const ssize_t got = ::pread(descriptor.get(), content.data() + used, content.size() - used,
                                off_t(offset + used));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("cannot read " + file.string(), errno);
    if (got == 0) break;
    used += size_t(got);
  }
  content.resize(used);
  return content;
}

/// The events in whole lines after `offset`, which moves behind them.
/// \param holding  leaves out lines without this text
std::vector<JobEvent> events_from(const fs::path& file, uint64_t& offset,
                                  std::string_view holding = "") {
  const std::string news = read_from(file, offset);
  std::vector<JobEvent> events;
  size_t begin = 0;
  for (size_t end = news.find('\n'); end != std::string::npos; end = news.find('\n', begin)) {
    const std::string_view line = std::string_view(news).substr(begin, end - begin);
    begin = end + 1;
    if (line.empty() || line.find(holding) == line.npos) continue;
    try {
      events.push_back(job_event_from_line(line));
    } catch (const Error& error) {
      log(LogLevel::Warning,
          file.string() + ": " + error.what());  // torn by a crash, then ended by AppendFile
    }
  }
  offset += begin;
  return events;
}

/// Lengthens the walltime as `retry:` asks if the previous attempt timed out.
void grow_walltime(JobSpec& spec, int attempt) {
  if (attempt < 2 || spec.retry.walltime_factor <= 1 || spec.resources.walltime.count() == 0)
    return;
  const fs::path before = attempt_directory(spec.job_directory, attempt - 1);
  const auto end = last_state(spec.job_directory, "", attempt - 1);
  const auto text = read_file_if_exists(before / "job.json");
  if (!end || end->state != JobState::TimedOut || !text) return;
  const std::chrono::seconds last = job_spec_from_json(parse_json(*text)).resources.walltime;
  spec.resources.walltime =
      std::max(spec.resources.walltime, next_walltime(spec.retry, last, spec.walltime_limit));
}

}  // namespace

fs::path attempt_directory(const fs::path& job_directory, int attempt) {
  return job_directory / (std::string(kAttemptPrefix) + std::to_string(attempt));
}

fs::path make_attempt(const Plan& plan, uint32_t job, int attempt) {
  const fs::path job_folder = job_directory(plan, job);
  fs::path directory = attempt_directory(job_folder, attempt);
  if (attempt == 1) make_directories(job_folder);
  make_directories(directory);
  const fs::path file = directory / "job.json";
  // A torn job.json was left by a crash before the attempt was handed to a backend.
  const auto left = read_file_if_exists(file);
  if (!left || !left->ends_with('\n')) {
    JobSpec spec = job_spec(plan, job);
    grow_walltime(spec, attempt);
    std::string text;
    append_dump(text, to_json(spec));
    write_file(file, text += '\n');
  }
  return directory;
}

std::vector<int> attempts(const fs::path& job_directory) {
  std::vector<int> numbers;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(job_directory, none)) {
    if (const auto number = attempt_number(entry.path().filename().string())) {
      numbers.push_back(*number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::optional<JobEvent> published_result(const fs::path& job_directory) {
  std::error_code none;
  const fs::path target = fs::read_symlink(job_directory / "outputs", none);
  if (none) return std::nullopt;
  const auto attempt = attempt_number(target.begin()->string());
  if (!attempt) return std::nullopt;
  uint64_t offset = 0;
  std::optional<JobEvent> last;
  for (JobEvent& event : events_from(attempt_directory(job_directory, *attempt) / "events.jsonl",
                                     offset, name(JobState::Succeeded))) {
    if (event.state == JobState::Succeeded) last = std::move(event);
  }
  if (!last) return std::nullopt;
  last->job = {};
  last->attempt = *attempt;
  return last;
}

std::vector<JobEvent> EventTail::read() { return events_from(file_, offset_); }

std::vector<JobEvent> attempt_events(const fs::path& job_directory, const JobName& job,
                                     int attempt) {
  EventTail tail(attempt_directory(job_directory, attempt) / "events.jsonl");
  std::vector<JobEvent> events = tail.read();
  for (JobEvent& event : events) {
    event.job = job;
    event.attempt = attempt;
  }
  return events;
}

std::optional<JobEvent> last_state(const fs::path& job_directory, const JobName& job, int attempt) {
  std::optional<JobEvent> last;
  for (JobEvent& event : attempt_events(job_directory, job, attempt)) {
    if (event.state) last = std::move(event);
  }
  return last;
}

}  // namespace dlflow
