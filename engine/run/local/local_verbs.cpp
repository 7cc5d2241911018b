#include "engine/run/local/local_verbs.h"

#include <utility>

#include "base/error.h"
#include "engine/backend/local.h"
#include "engine/backend/machine.h"
#include "engine/plan/run_directory.h"
#include "engine/run/restore.h"

namespace dlflow {
namespace {

/// Calls `work` with the services of an engine for runs of `profile`.
template <typename Work>
auto with_backend(const VerbServices& verb, const Profile& profile, const Work& work) {
  LocalBackend backend(local_machine(profile));
  const std::unique_ptr<Observer> observer = verb.watch();
  return work(Services{verb.store, backend, *observer, verb.clock});
}

Outcome outcome_of(const RunResult& result) {
  return {.state = result.state, .interrupted = result.interrupted, .chain = {}};
}

}  // namespace

void LocalVerbs::create(Plan& plan) {
  with_backend(services_, plan.profile, [&](const Services& all) { create_run(plan, all); });
}

std::vector<PreviewedBatch> LocalVerbs::preview(const Plan& plan) {
  with_backend(services_, plan.profile, [&](const Services& all) { all.backend.check(plan); });
  return {};
}

Outcome LocalVerbs::start(Plan plan, const RunOptions& options) {
  return with_backend(services_, plan.profile, [&](const Services& all) {
    return outcome_of(start_run(std::move(plan), all, options));
  });
}

Outcome LocalVerbs::detach(const Plan& plan, const RunOptions& options) {
  detach_run(plan.directory, options);
  return {};
}

Outcome LocalVerbs::resume(const std::filesystem::path& run_directory, const RunOptions& options) {
  return with_backend(services_, run_profile(run_directory), [&](const Services& all) {
    return outcome_of(resume_run(run_directory, all, options));
  });
}

Outcome LocalVerbs::resubmit(const std::filesystem::path& run_directory, const PlanAgain& again,
                             const RunOptions& options) {
  return with_backend(services_, run_profile(run_directory), [&](const Services& all) {
    return outcome_of(resubmit_run(run_directory, again, all, options));
  });
}

Cancelled LocalVerbs::cancel(const std::filesystem::path& run_directory,
                             const std::vector<std::string>& names) {
  if (!names.empty()) {
    throw Error(Errc::InvalidInput, "a run on this machine is cancelled as a whole");
  }
  return with_backend(services_, run_profile(run_directory), [&](const Services& all) {
    return Cancelled{.ended = cancel_run(run_directory, all), .chain = {}};
  });
}

std::vector<RunStatus> LocalVerbs::refresh(
    const std::vector<std::filesystem::path>& run_directories, Detail) {
  std::vector<RunStatus> statuses;
  for (const std::filesystem::path& directory : run_directories) {
    sync_idle_run(services_.store, directory);
    statuses.push_back(services_.store.status(directory.string()));
  }
  return statuses;
}

}  // namespace dlflow
