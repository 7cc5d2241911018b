#include "engine/supervisor/shell.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/cli/commands.h"
#include "engine/plan/job.h"
#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

/// The job that `word` names, one that failed first; its attempt must have been prepared.
JobRow chosen_job(const RunStatus& status, const std::string& word) {
  std::vector<JobRow> jobs = jobs_called(status, word);
  std::ranges::stable_partition(jobs, [](const JobRow& job) { return is_failure(job.state); });
  for (const JobRow& job : jobs) {
    if (std::filesystem::exists(attempt_directory(job.directory, job.attempt) / "job.json"))
      return job;
  }
  throw Error(Errc::NotFound, jobs.front().job + " has not been started yet, so nothing of it is " +
                                  "prepared: it is " + std::string(name(jobs.front().state)));
}

}  // namespace

void add_shell(CLI::App& app, Session& session) {
  CLI::App* command = add_command(
      app, "shell",
      "Open a shell where a job's program runs: its image, environment, inputs and setup, on this "
      "machine. It works on copies, but large inputs are links to the originals.",
      R"(
  dlflow shell fashion-mnist-7f3a91c0 train
  dlflow shell sweep-7f3a91c0 'train[lr=0.1]'
  srun --pty dlflow shell sweep-7f3a91c0 train      (on a node)
  echo 'python3 -c "import torch"' | dlflow shell sweep-7f3a91c0 train)");
  const auto run = std::make_shared<std::string>();
  const auto job = std::make_shared<std::string>();
  add_run_argument(*command, *run)->required();
  command->add_option("job", *job, "a step or step[element]; of several, the first that failed")
      ->required()
      ->type_name("JOB");
  command->callback([=, &session] {
    const RunStatus status = refresh_run(session, find_run(session, *run));
    const JobRow chosen = chosen_job(status, *job);
    if (!session.quiet) {
      std::fprintf(stderr, "the environment of %s; its folder is removed at the end\n",
                   chosen.job.text().c_str());
    }
    session.status = run_shell(attempt_directory(chosen.directory, chosen.attempt), session.quiet);
  });
}

}  // namespace dlflow
