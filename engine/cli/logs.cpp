#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/handle.h"
#include "base/text.h"
#include "engine/cli/commands.h"
#include "engine/plan/job.h"
#include "engine/plan/run_directory.h"
#include "engine/supervisor/telling_line.h"

namespace dlflow {
namespace {

struct LogsArguments {
  std::string run;
  std::string job;
  bool follow = false;
};

/// Prints a file's content, and later what was appended; with a prefix on each line, if there is
/// one.
class Tail {
 public:
  Tail(std::filesystem::path file, std::string prefix)
      : file_(std::move(file)), prefix_(std::move(prefix)) {}

  void print_new() {
    const FileDescriptor file(::open(file_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return;
    std::array<char, 65536> buffer{};
    for (ssize_t got; (got = ::pread(file.get(), buffer.data(), buffer.size(), offset_)) > 0;) {
      print({buffer.data(), size_t(got)});
      offset_ += got;
    }
    std::fflush(stdout);
  }

  /// Prints the last line if it has no newline.
  void print_rest() {
    if (!rest_.empty()) print_line();
  }

 private:
  void print(std::string_view text) {
    if (prefix_.empty()) {
      std::fwrite(text.data(), 1, text.size(), stdout);
      return;
    }
    for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
      rest_ += text.substr(0, end);
      print_line();
    }
    rest_ += text;
  }

  void print_line() {
    const std::string line = prefix_ + rest_ + "\n";
    std::fwrite(line.data(), 1, line.size(), stdout);  // a line may hold a NUL byte
    rest_.clear();
  }

  std::filesystem::path file_;
  std::string prefix_;
  std::string rest_;  // an incomplete line
  off_t offset_ = 0;
};

/// The job to show by default: a failed one, otherwise a running one, otherwise the last that ran.
const JobRow* most_interesting(const RunStatus& status) {
  const JobRow* best = nullptr;
  int best_rank = 0;
  for (const JobRow& job : status.jobs) {
    if (job.attempt == 0) continue;
    const bool wrong = is_final(job.state) && !satisfies_dependents(job.state);
    const int rank = wrong ? 3 : job.state == JobState::Running ? 2 : 1;
    if (rank > best_rank || (rank == best_rank && rank == 1)) {
      best = &job;
      best_rank = rank;
    }
  }
  return best;
}

/// The jobs that `word` names, or the most interesting one if it is empty.
std::vector<JobRow> chosen_jobs(const RunStatus& status, const std::string& word) {
  if (!word.empty()) return jobs_called(status, word);
  if (const JobRow* job = most_interesting(status)) return {*job};
  throw Error(Errc::NotFound, "no job of " + status.run + " has started yet");
}

std::string why_no_output(const JobRow& job) {
  return job.job + " has no output: it is " + std::string(name(job.state)) +
         (job.reason.empty() ? "" : ", " + job.reason);
}

/// The jobs that have begun, or may begin while their output is followed; throws if none has.
std::vector<JobRow> with_output(std::vector<JobRow> jobs, bool follow) {
  const JobRow first = jobs.front();
  const size_t all = jobs.size();
  std::erase_if(jobs, [follow](const JobRow& job) {
    if (job.attempt == 0) return true;
    return !follow && job.state == JobState::Queued &&  // perhaps again, after its walltime
           !std::filesystem::exists(attempt_directory(job.directory, job.attempt) / "stdout");
  });
  if (!jobs.empty()) return jobs;
  if (all == 1) throw Error(Errc::NotFound, why_no_output(first));
  throw Error(Errc::NotFound, "none of the " + std::to_string(all) + " jobs of step '" +
                                  first.step + "' has output; " + why_no_output(first));
}

/// "lr=0.1 | ", all of one width; empty for a single job.
std::map<std::string, std::string> prefixes_of(const std::vector<JobRow>& jobs) {
  std::map<std::string, std::string> prefixes;
  if (jobs.size() == 1) return {{jobs.front().job, ""}};
  size_t width = 0;
  for (const JobRow& job : jobs) width = std::max(width, display_width(job.element));
  for (const JobRow& job : jobs) prefixes[job.job] = pad(job.element, width) + " | ";
  return prefixes;
}

class JobLog {
 public:
  JobLog(const JobRow& job, const std::string& prefix)
      : job_(job.job),
        attempt_(job.attempt),
        output_(attempt_directory(job.directory, job.attempt) / "stdout", prefix),
        errors_(attempt_directory(job.directory, job.attempt) / "stderr", prefix) {}

  /// Returns whether more may follow. `status` must have been read before.
  bool print_new(const RunStatus& status) {
    output_.print_new();
    errors_.print_new();
    for (const JobRow& now : status.jobs) {
      if (now.job != job_) continue;
      if (!is_final(now.state) && now.attempt == attempt_) return true;
    }
    print_rest();
    return false;
  }

  void print_rest() {
    output_.print_rest();
    errors_.print_rest();
  }

 private:
  JobName job_;
  int attempt_;
  Tail output_;
  Tail errors_;
};

/// Throws Error{NotFound} if the run's folder has been removed by hand.
void check_folder(const RunStatus& status) {
  if (std::filesystem::exists(status.directory)) return;
  throw Error(Errc::NotFound, "the run directory " + status.directory +
                                  " is gone, with the output of its jobs; `dlflow rm " +
                                  status.run + "` removes the run from the list");
}

void print_logs(Session& session, const std::string& run, const LogsArguments& arguments) {
  const RunStatus now = refresh_run(session, run);
  check_folder(now);
  const std::vector<JobRow> jobs = with_output(chosen_jobs(now, arguments.job), arguments.follow);
  const auto prefixes = prefixes_of(jobs);
  std::vector<JobLog> logs;
  for (const JobRow& job : jobs) {
    if (!session.quiet && is_terminal(1)) {
      std::fprintf(stderr, "%s, attempt %d: %s\n", job.job.text().c_str(), job.attempt,
                   attempt_directory(job.directory, job.attempt).c_str());
    }
    logs.emplace_back(job, prefixes.at(job.job));
  }
  constexpr int kAskCluster = 30;  // in looks: a job may end without recording it
  for (int look = 1;; ++look) {
    const bool ask = look % kAskCluster == 0;
    const RunStatus status = ask ? refresh_run(session, run) : read_run(session, run);
    bool more = false;
    for (JobLog& log : logs) more = log.print_new(status) || more;
    if (!arguments.follow || !more) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  for (JobLog& log : logs) log.print_rest();
}

void print_logs_json(Session& session, const std::string& run, const std::string& word) {
  const RunStatus now = refresh_run(session, run);
  check_folder(now);
  Json list = Json::array();
  for (const JobRow& job : chosen_jobs(now, word)) {
    Json entry = {{"run", run},
                  {"job", job.job},
                  {"state", name(job.state)},
                  {"attempt", job.attempt},
                  {"stdout", nullptr},
                  {"stderr", nullptr}};
    if (job.attempt > 0) {
      const auto attempt = attempt_directory(job.directory, job.attempt);
      for (const char* stream : {"stdout", "stderr"}) {
        entry[stream] = {{"file", (attempt / stream).string()},
                         {"text", escaped_lines(end_of_output(attempt / stream, 0, 1 << 20))}};
      }
    }
    list.push_back(std::move(entry));
  }
  print_json(list);
}

}  // namespace

void add_logs(CLI::App& app, Session& session) {
  CLI::App* command = add_command(
      app, "logs", "Print the output of a job, or of all jobs of a step, then their errors.", R"(
  dlflow logs                          (the newest run)
  dlflow logs fashion-mnist-7f3a91c0 train      (every element)
  dlflow logs fashion-mnist-7f3a91c0 'train[lr=0.1]' -f)");
  const auto arguments = std::make_shared<LogsArguments>();
  add_run_argument(*command, arguments->run);
  add_value(*command, "job", "JOB", arguments->job,
            "a step or step[element]; default: one that failed or runs");
  command->add_flag("-f,--follow", arguments->follow, "print new output until the jobs end");
  add_json_option(*command, session);
  command->callback([=, &session] {
    const std::string run = find_run(session, arguments->run);
    if (session.json) return print_logs_json(session, run, arguments->job);
    print_logs(session, run, *arguments);
  });
}

}  // namespace dlflow
