#include "runtime/cooperation/cooperation.h"

#include <cmath>
#include <string>

#include "base/error.h"
#include "runtime/cooperation/ways.h"

namespace dlflow::runtime {

bool StepReport::calls_for_meeting() const {
  return stops > 0 || saves > 0 || !std::isfinite(loss);
}

int num_workers(const CooperationOptions& options, int ranks) {
  if (options.kind != CooperationOptions::Kind::ParameterServer) return ranks;
  if (options.servers < ranks) return ranks - options.servers;
  throw Error(Errc::InvalidInput,
              "with: 'cooperation.servers' is " + std::to_string(options.servers) +
                  ", but the step has " + std::to_string(ranks) + " rank" +
                  (ranks == 1 ? "" : "s") +
                  ": none is left to train; give it more ranks than servers (resources: ranks)");
}

std::unique_ptr<Cooperation> make_cooperation(const CooperationOptions& options, Communicator& comm,
                                              const RuleSet& rules, Timeline& timeline) {
  using Kind = CooperationOptions::Kind;
  const WaySetup setup{options, comm, rules, timeline};
  switch (options.kind) {
    case Kind::LocalSgd:
      return make_local_sgd(setup);
    case Kind::Elastic:
      return make_elastic(setup);
    case Kind::ParameterServer:
      return make_parameter_servers(setup);
    case Kind::Gossip:
      return make_gossip(setup);
    case Kind::Pairwise:
      return make_pairwise(setup);
    case Kind::Synchronous:
      break;
  }
  return nullptr;
}

}  // namespace dlflow::runtime
