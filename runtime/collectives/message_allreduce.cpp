#include "runtime/collectives/message_allreduce.h"

#include <utility>

#include "base/error.h"
#include "runtime/collectives/rabenseifner_allreduce.h"
#include "runtime/collectives/recursive_doubling_allreduce.h"
#include "runtime/collectives/ring_allreduce.h"
#include "runtime/collectives/tree_allreduce.h"

namespace dlflow::runtime {

Task message_allreduce(Algorithm algorithm, Link link, Values values) {
  constexpr std::pair<Algorithm, Task (*)(Link, Values)> kWays[] = {
      {Algorithm::RecursiveDoubling, recursive_doubling_allreduce},
      {Algorithm::Rabenseifner, rabenseifner_allreduce},
      {Algorithm::Ring, ring_allreduce},
      {Algorithm::Tree, tree_allreduce}};
  for (const auto& [known, allreduce] : kWays) {
    if (known == algorithm) return allreduce(std::move(link), values);
  }
  DLFLOW_CHECK(false);
}

}  // namespace dlflow::runtime
