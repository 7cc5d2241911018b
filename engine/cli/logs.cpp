#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/handle.h"
#include "base/text.h"
#include "engine/cli/commands.h"
#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

/// Prints what a file holds, and later what was added to it.
class Tail {
 public:
  explicit Tail(std::filesystem::path file) : file_(std::move(file)) {}

  void print_new() {
    if (!descriptor_) descriptor_.reset(::open(file_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!descriptor_) return;
    std::array<char, 65536> buffer{};
    for (ssize_t got; (got = ::read(descriptor_.get(), buffer.data(), buffer.size())) > 0;) {
      std::fwrite(buffer.data(), 1, size_t(got), stdout);
    }
    std::fflush(stdout);
  }

 private:
  std::filesystem::path file_;
  FileDescriptor descriptor_;
};

/// The job that is most worth reading: one that failed, one that runs, else the last that ran.
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

const JobRow& find_job(const RunStatus& status, const std::string& word) {
  if (word.empty()) {
    if (const JobRow* job = most_interesting(status)) return *job;
    throw Error(Errc::NotFound, "no job of " + status.run + " has started yet");
  }
  std::vector<std::string> names;
  const JobRow* of_step = nullptr;
  for (const JobRow& job : status.jobs) {
    if (job.job == word) return job;
    if (job.step == word && of_step == nullptr) of_step = &job;
    names.push_back(job.job);
  }
  if (of_step != nullptr) return *of_step;
  throw Error(Errc::NotFound,
              status.run + " has no job '" + word + "'" + did_you_mean(word, names));
}

void print_logs(Session& session, const std::string& run, const std::string& word, bool follow) {
  const JobRow job = find_job(refresh_run(session, run), word);
  if (job.attempt == 0) {
    throw Error(Errc::NotFound, job.job + " has no output: it is " + std::string(name(job.state)) +
                                    (job.reason.empty() ? "" : ", " + job.reason));
  }
  const auto attempt = attempt_directory(job.directory, job.attempt);
  if (!session.quiet && is_terminal(1)) {
    std::fprintf(stderr, "%s, attempt %d: %s\n", job.job.c_str(), job.attempt, attempt.c_str());
  }
  Tail output(attempt / "stdout");
  Tail errors(attempt / "stderr");
  constexpr int kAskCluster = 30;  // every so many looks: a job may end without a word of its own
  for (int look = 1;; ++look) {
    const bool ask = look % kAskCluster == 0;
    const RunStatus status = ask ? refresh_run(session, run) : read_run(session, run);
    const JobRow now = find_job(status, job.job);  // before the last read
    output.print_new();
    errors.print_new();
    if (!follow || is_final(now.state) || now.attempt != job.attempt) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

}  // namespace

void add_logs(CLI::App& app, Session& session) {
  CLI::App* command = add_command(app, "logs", "Print the output of a job, then its errors.",
                                  "  dlflow logs                          (the newest run)\n"
                                  "  dlflow logs fashion-mnist-7f3a91c0 'train[lr=0.1]' -f");
  const auto run = std::make_shared<std::string>();
  const auto job = std::make_shared<std::string>();
  const auto follow = std::make_shared<bool>(false);
  command->add_option("run", *run, "a run's name, or enough of it")->type_name("RUN");
  command->add_option("job", *job, "a step or step[element]; default: a job that failed or runs")
      ->type_name("JOB");
  command->add_flag("-f,--follow", *follow, "print new output until the job ends");
  command->callback([=, &session] { print_logs(session, find_run(session, *run), *job, *follow); });
}

}  // namespace dlflow
