#include "runtime/collectives/mpi_allreduce.h"

#include "runtime/collectives/link.h"

namespace dlflow::runtime {

Task mpi_allreduce(Communicator& comm, Values values) {
  Messages under_way(comm);
  under_way.add(comm.start_sum(values));
  co_await under_way;
}

}  // namespace dlflow::runtime
