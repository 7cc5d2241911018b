// A rank of a program that fails as its argument says; faults_test.py checks how all ranks end. A
// rank writes the error that it catches to $CAUGHT/RANK, with the seconds since the fault: mpirun
// may drop the last output.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <list>
#include <map>
#include <string>
#include <thread>

#include "base/error.h"
#include "runtime/comm/communicator.h"
#include "steps/ranks/guard.h"
#include "steps/ranks/launch.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int kOddRank = 1;

void go_on(Communicator& comm) {
  for (;; std::this_thread::sleep_for(1ms)) comm.barrier();
}

/// In the control group $CGROUP, which has little memory.
void run_out_of_memory() {
  std::ofstream(std::getenv("CGROUP") + std::string("/cgroup.procs")) << ::getpid() << std::flush;
  for (std::list<std::string> taken;;) taken.emplace_back(size_t(1) << 20, 'x');
}

/// Status 0 if a subnormal number is zero, in this thread and in one that it starts.
int multiply_a_subnormal() {
  volatile float product_here = 0, product_there = 0;
  const auto multiply = [](volatile float& product) {
    volatile float smallest = std::numeric_limits<float>::denorm_min();
    product = smallest * 2;
  };
  multiply(product_here);
  std::thread([&] { multiply(product_there); }).join();
  return product_here == 0 && product_there == 0 ? 0 : 1;
}

/// The fault of the odd rank; the others go on.
void go_wrong(const std::string& how) {
  if (how == "killed") ::raise(SIGKILL);
  if (how == "stopped") ::raise(SIGSTOP);
  if (how == "crashed") ::raise(SIGSEGV);
  if (how == "memory") run_out_of_memory();
  if (how == "hangs") ::pause();
  if (how == "throws") throw Error(Errc::NotFound, "data: No such file or directory");
  if (how == "exits") ::_exit(0);
}

/// The odd rank's call, where the others submit {"all-reduce", "w", 10, "fp32"}.
const std::map<std::string, Call> kOtherCalls = {
    {"name", {"all-reduce", "v", 10, "fp32"}},
    {"shape", {"all-reduce", "w", 11, "fp32"}},
    {"type", {"all-reduce", "w", 10, "fp16"}},
    {"operation", {"all-reduce (max)", "w", 10, "fp32"}},
    {"root", {"all-reduce", "w", 10, "fp32", 2}},
};

void work(Communicator& comm, const std::string& how) {
  const bool odd = comm.rank() == kOddRank;
  for (int i = 0; i < 10; ++i) comm.barrier();
  const auto other = kOtherCalls.find(how);
  if (odd && how == "order") comm.barrier();
  comm.submit(odd && other != kOtherCalls.end() ? other->second
                                                : Call{"all-reduce", "w", 10, "fp32"});
  if (odd) go_wrong(how);
  // Rank 0 never checks whether other ranks are left.
  for (volatile bool computes = comm.rank() == 0 && std::getenv("COMPUTES"); computes;) continue;
  go_on(comm);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argv[1];
  const auto can_resume = [] { return std::getenv("CHECKPOINT") != nullptr; };
  const steps::GuardedRank guarded = steps::guard_rank(can_resume);
  const auto work_and_catch = [&](Communicator& comm) {
    if (how == "subnormal") return multiply_a_subnormal();
    const auto start = Clock::now();
    try {
      work(comm, how);
    } catch (const WatchError& error) {
      const std::chrono::duration<double> time = Clock::now() - start;
      std::ofstream(std::getenv("CAUGHT") + ("/" + std::to_string(comm.rank())))
          << std::fixed << "rank " << comm.rank() << " after " << time.count()
          << " s: " << error.what() << "\n"
          << std::flush;
      // Launchers kill ranks that end after the first one like this.
      if (comm.rank() == 0 && std::getenv("KILLED_AFTER_VERDICT")) ::raise(SIGKILL);
      throw;
    }
    return 0;
  };
  return steps::run_rank(argc, argv, can_resume, work_and_catch, guarded);
}
