#define CATCH_CONFIG_RUNNER
#include "runtime/comm/mpi_communicator.h"
#include "tests/support/catch.h"

// Catch's session on every rank, with the report of rank 0 only: cases fail on all ranks alike.
int main(int argc, char** argv) {
  const dlflow::runtime::MpiEnvironment mpi(argc, argv);
  Catch::Session session;
  if (mpi.rank() != 0) session.configData().outputFilename = "/dev/null";
  const int status = session.run(argc, argv);
  // A rank that failed may have left its peers in the middle of a case.
  if (status != 0) mpi.abort(1);
  return 0;
}
