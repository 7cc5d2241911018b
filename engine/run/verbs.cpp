#include "engine/run/verbs.h"

#include "engine/run/batch_systems.h"
#include "engine/run/chain/chain_verbs.h"
#include "engine/run/local/local_verbs.h"

namespace dlflow {

std::unique_ptr<Verbs> verbs_of(const std::string& scheduler, const VerbServices& services) {
  if (!is_batch_system(scheduler)) return std::make_unique<LocalVerbs>(services);
  return std::make_unique<ChainVerbs>(make_batch_system(scheduler), services);
}

size_t cancel_lost_run(const std::string& run, Store& store, const Clock& clock) {
  const bool is_local = store.status(run).profile == "local";
  const size_t cancelled = is_local ? 0 : cancel_lost_chain(run, *detect_batch_system());
  store.set_run_state(run, RunState::Cancelled, clock.now());
  return cancelled;
}

}  // namespace dlflow
