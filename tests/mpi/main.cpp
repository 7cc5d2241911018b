#define CATCH_CONFIG_RUNNER
#include <vector>

#include "runtime/comm/mpi_communicator.h"
#include "tests/support/catch.h"
#include "tests/support/hang_watchdog.h"

namespace {

/// Limits one pass of a case, with one of its generated values, which takes seconds even on a busy
/// machine. A limit for whole cases was too short for 16 ranks beside other work.
struct Watchdog : Catch::TestEventListenerBase {
  using Catch::TestEventListenerBase::TestEventListenerBase;
  void sectionStarting(const Catch::SectionInfo& info) override {
    Catch::TestEventListenerBase::sectionStarting(info);
    watchdog.begin(info.name);
  }
  void testCaseEnded(const Catch::TestCaseStats&) override { watchdog.end(); }

  dlflow::test::HangWatchdog watchdog{std::chrono::seconds(90)};
};
CATCH_REGISTER_LISTENER(Watchdog)

}  // namespace

// Catch's session on every rank, reported by rank 0 only: a case fails on all ranks or on none.
int main(int argc, char** argv) {
  const dlflow::runtime::MpiEnvironment mpi(argc, argv);
  std::vector<const char*> arguments(argv, argv + argc);
  if (mpi.rank() != 0) arguments.insert(arguments.end(), {"--out", "/dev/null"});
  const int status = Catch::Session().run(int(arguments.size()), arguments.data());
  // A rank that failed may have left its peers in the middle of a case.
  if (status != 0) mpi.abort(1);
  return 0;
}
