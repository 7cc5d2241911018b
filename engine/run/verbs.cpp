#include "engine/run/verbs.h"

#include <utility>

#include "base/error.h"
#include "engine/backend/local.h"
#include "engine/backend/machine.h"
#include "engine/plan/run_directory.h"
#include "engine/run/batch_systems.h"
#include "engine/run/chain/chain_verbs.h"
#include "engine/run/restore.h"

namespace dlflow {
namespace {

/// Calls `work` with the services of an engine for runs of `profile`.
template <typename Work>
auto with_backend(const VerbServices& verb, const Profile& profile, const Work& work) {
  const auto backend = local_backend(local_machine(profile));
  const std::unique_ptr<Observer> observer = verb.watch();
  return work(Services{verb.store, *backend, *observer, verb.clock});
}

Outcome outcome_of(const RunResult& result) {
  return {.state = result.state, .interrupted = result.interrupted, .chain = {}};
}

/// The verbs on runs on this machine.
class LocalVerbs : public Verbs {
 public:
  explicit LocalVerbs(const VerbServices& services) : services_(services) {}

  void create(Plan& plan) override {
    with_backend(services_, plan.profile, [&](const Services& all) { create_run(plan, all); });
  }

  std::vector<PreviewedBatch> preview(const Plan& plan) override {
    with_backend(services_, plan.profile, [&](const Services& all) { all.backend.check(plan); });
    return {};
  }

  std::string announcement(const Plan&) const override { return ""; }

  Outcome start(Plan plan, const RunOptions& options) override {
    return with_backend(services_, plan.profile, [&](const Services& all) {
      return outcome_of(start_run(std::move(plan), all, options));
    });
  }

  Outcome detach(const Plan& plan, const RunOptions& options) override {
    detach_run(plan.directory, options);
    return {};
  }

  Outcome resume(const std::filesystem::path& run_directory, const RunOptions& options) override {
    return with_backend(services_, run_profile(run_directory), [&](const Services& all) {
      return outcome_of(resume_run(run_directory, all, options));
    });
  }

  Outcome resubmit(const std::filesystem::path& run_directory, const PlanAgain& again,
                   const RunOptions& options) override {
    return with_backend(services_, run_profile(run_directory), [&](const Services& all) {
      return outcome_of(resubmit_run(run_directory, again, all, options));
    });
  }

  Cancelled cancel(const std::filesystem::path& run_directory,
                   const std::vector<std::string>& names) override {
    if (!names.empty()) {
      throw Error(Errc::InvalidInput,
                  "a run on this machine is cancelled as a whole; leave out --step");
    }
    return with_backend(services_, run_profile(run_directory), [&](const Services& all) {
      return Cancelled{.ended = cancel_run(run_directory, all), .chain = {}};
    });
  }

  std::vector<RunStatus> refresh(const std::vector<std::filesystem::path>& run_directories,
                                 Detail) override {
    std::vector<RunStatus> statuses;
    for (const std::filesystem::path& directory : run_directories) {
      sync_idle_run(services_.store, directory);
      statuses.push_back(services_.store.status(directory.string()));
    }
    return statuses;
  }

  void check_idle(const std::filesystem::path&) override {}
  std::chrono::seconds look_interval() const override { return std::chrono::seconds(1); }

 private:
  VerbServices services_;
};

}  // namespace

std::unique_ptr<Verbs> verbs_of(const std::string& scheduler, const VerbServices& services) {
  if (!is_batch_system(scheduler)) return std::make_unique<LocalVerbs>(services);
  return chain_verbs(make_batch_system(scheduler), services);
}

size_t cancel_lost_run(const std::string& run, Store& store, const Clock& clock) {
  const bool is_local = store.status(run).profile == "local";
  const size_t cancelled = is_local ? 0 : cancel_lost_chain(run, *detect_batch_system());
  store.set_run_state(run, RunState::Cancelled, clock.now());
  return cancelled;
}

}  // namespace dlflow
