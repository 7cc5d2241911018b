#include "engine/run/chain.h"

#include "base/error.h"
#include "base/file.h"
#include "engine/plan/run_directory.h"
#include "engine/run/chain_work.h"
#include "engine/run/engine.h"
#include "engine/slurm/limits.h"

namespace dlflow {

namespace fs = std::filesystem;

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

ChainView refresh_chain(const fs::path& run_directory, const ChainServices& services) {
  const auto lock = RunLock::try_acquire(run_directory);
  if (!lock) return {};
  Chain chain(run_directory, services);
  ChainView view = chain.refresh();
  services.store.settle_run_state(run_name(run_directory));
  return view;
}

}  // namespace dlflow
