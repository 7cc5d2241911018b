#include "engine/run/chain.h"

#include <memory>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "engine/plan/run_directory.h"
#include "engine/run/chain_work.h"
#include "engine/run/engine.h"
#include "engine/slurm/limits.h"

namespace dlflow {

namespace {

namespace fs = std::filesystem;

ChainAnswer ask_or_say_why_not(SlurmTools& tools, const ChainQuestion& question) {
  try {
    return ask(tools, question);
  } catch (const Error& error) {
    if (!error.retryable()) throw;
    ChainAnswer answer;
    answer.problem = error.what();
    return answer;
  }
}

}  // namespace

void create_chain(Plan& plan, const ChainServices& services, const fs::path& program) {
  const ClusterLimits cluster = services.tools.cluster();
  check_limits(plan, cluster);
  plan.profile = with_cluster_limits(plan.profile, cluster);
  create_run_directory(plan, plan.profile.runs, services.clock.now(), program);
  services.store.create_run(plan);
}

ChainResult submit_chain(const fs::path& run_directory, const PlanAgain& again,
                         const ChainServices& services) {
  const RunLock lock(run_directory);
  std::error_code none;
  fs::remove(cancel_file(run_directory), none);
  return Chain(run_directory, services).submit(again);
}

CancelResult cancel_chain(const fs::path& run_directory, const std::vector<std::string>& names,
                          const ChainServices& services) {
  const RunLock lock(run_directory);
  // Whoever asks a second time does not want to wait for checkpoints.
  const fs::path asked = cancel_file(run_directory);
  const bool at_once = fs::exists(asked);
  write_file_atomic(asked, "");
  return Chain(run_directory, services).cancel(names, at_once);
}

size_t cancel_lost_chain(const std::string& run, SlurmTools& tools) {
  std::vector<std::string> ids;
  for (const SlurmJob& job : tools.queue()) {
    if (!is_over(job.state) && job.name.starts_with(run + ".")) ids.push_back(job.id);
  }
  if (ids.empty()) return 0;
  const JobAnswer answer = tools.cancel(ids);
  if (answer.kind == JobAnswer::Kind::Refused) throw Error(Errc::InvalidInput, answer.message);
  return ids.size();
}

std::vector<ChainView> refresh_chains(std::span<const fs::path> run_directories,
                                      const ChainServices& services, AskAbout what) {
  struct Opened {
    Opened(RunLock held, const fs::path& directory, const ChainServices& services)
        : lock(std::move(held)), chain(directory, services) {}
    RunLock lock;
    Chain chain;
  };
  std::vector<std::unique_ptr<Opened>> opened;
  ChainQuestion question;
  for (const fs::path& directory : run_directories) {
    auto lock = RunLock::try_acquire(directory);
    opened.push_back(lock ? std::make_unique<Opened>(std::move(*lock), directory, services)
                          : nullptr);
    if (opened.back()) question.add(opened.back()->chain.question(what));
  }
  const ChainAnswer answer = ask_or_say_why_not(services.tools, question);
  std::vector<ChainView> views(run_directories.size());
  for (size_t run = 0; run < opened.size(); ++run) {
    if (!opened[run]) continue;
    views[run] = opened[run]->chain.refresh(answer);
    services.store.settle_run_state(run_name(run_directories[run]));
  }
  return views;
}

}  // namespace dlflow
