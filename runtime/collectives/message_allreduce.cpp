#include "runtime/collectives/message_allreduce.h"

#include "base/error.h"
#include "runtime/collectives/rabenseifner_allreduce.h"
#include "runtime/collectives/recursive_doubling_allreduce.h"
#include "runtime/collectives/ring_allreduce.h"
#include "runtime/collectives/tree_allreduce.h"

namespace dlflow::runtime {

Task message_allreduce(Algorithm algorithm, Link link, Values values) {
  switch (algorithm) {
    case Algorithm::RecursiveDoubling:
      return recursive_doubling_allreduce(std::move(link), values);
    case Algorithm::Rabenseifner:
      return rabenseifner_allreduce(std::move(link), values);
    case Algorithm::Ring:
      return ring_allreduce(std::move(link), values);
    case Algorithm::Tree:
      return tree_allreduce(std::move(link), values);
    case Algorithm::SharedMemory:
    case Algorithm::Hierarchical:
    case Algorithm::Direct:
    case Algorithm::Mpi:
      break;  // not by such messages
  }
  DLFLOW_CHECK(false);
}

}  // namespace dlflow::runtime
