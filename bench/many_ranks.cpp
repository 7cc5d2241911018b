#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "runtime/collectives/allreduce.h"
#include "runtime/comm/meeting.h"
#include "runtime/comm/socket_communicator.h"
#include "runtime/watch/watch.h"

/// Starts P processes on this machine as one group. Measures the start, the memory of a rank, a sum
/// of 1 MiB, and the time until the ranks name one that is killed. Ends with 1 if a sum is wrong,
/// or if a rank does not name the killed one.
using namespace dlflow::runtime;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;  // the same for all processes

namespace {

constexpr size_t kElements = (1 << 20) / sizeof(float);
constexpr int kSums = 5;
constexpr auto kTimeToWait = 2s;  // how long the others wait for kKilled
constexpr int kKilled = 1;        // an inner node in the watch's tree, with 34 ranks or more

/// A rank's results, in memory shared with the process that started it.
struct Report {
  std::atomic<bool> ready{false};
  bool right = false;
  Clock::time_point started, named;
  double sum_seconds = 0;  // median
  size_t memory_kb = 0, descriptors = 0, threads = 0;
  std::array<char, 256> error{};
};

/// The private memory of this process: the sum of "Private_Dirty:  1234 kB" and others.
size_t own_memory_kb() {
  std::ifstream file("/proc/self/smaps_rollup");
  size_t sum = 0, number = 0;
  for (std::string word; file >> word;) {
    if (word.starts_with("Private_") && file >> number) sum += number;
  }
  return sum;
}

size_t entries_of(const char* folder) {
  return size_t(std::distance(std::filesystem::directory_iterator(folder),
                              std::filesystem::directory_iterator()));
}

double median_of_sums(SocketCommunicator& comm, bool& right) {
  Allreduce sums(comm, kElements);
  std::vector<double> seconds;
  for (int i = 0; i < kSums; ++i) {
    std::ranges::fill(sums.part(0), float(comm.rank() + 1));
    comm.barrier();
    const auto begin = Clock::now();
    sums.start(0, kElements);
    sums.finish();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    const float sum = float(comm.size()) * float(comm.size() + 1) / 2;
    right = std::ranges::all_of(sums.part(0), [&](float value) { return value == sum; });
    if (!right) break;
    comm.barrier();
  }
  std::ranges::nth_element(seconds, seconds.begin() + kSums / 2);
  return seconds[kSums / 2];
}

void work(SocketCommunicator& comm, Report& report) {
  comm.barrier();
  report.started = Clock::now();
  report.memory_kb = own_memory_kb();
  report.sum_seconds = median_of_sums(comm, report.right);
  report.descriptors = entries_of("/proc/self/fd");
  report.threads = entries_of("/proc/self/task");
  report.ready = true;
  if (comm.rank() == kKilled) std::this_thread::sleep_for(10min);
  comm.barrier();
}

/// One rank, until the watch ends it.
void run_rank(const std::string& file, int rank, int ranks, int of_node, Report& report) {
  try {
    SocketEndpoint own("node" + std::to_string(rank / of_node));
    const auto all = meet(file, rank, ranks, own.text(), 10min);
    SocketCommunicator comm(std::move(own), rank, all, 10min);
    under_watch(comm, {}, [&] { work(comm, report); });
  } catch (const std::exception& error) {
    report.named = Clock::now();
    std::strncpy(report.error.data(), error.what(), report.error.size() - 1);
  }
}

std::span<Report> shared_reports(size_t count) {
  void* const memory = ::mmap(nullptr, count * sizeof(Report), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) dlflow::throw_errno("memory for reports", errno);
  auto* const reports = static_cast<Report*>(memory);
  std::uninitialized_default_construct_n(reports, count);
  return {reports, count};
}

/// Waits until all are ready; false if one ends before.
bool wait_until_ready(std::span<const Report> reports) {
  for (const Report& report : reports) {
    for (; !report.ready; std::this_thread::sleep_for(10ms)) {
      if (::waitpid(-1, nullptr, WNOHANG) > 0) return false;
    }
  }
  return true;
}

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

template <typename Get>
auto most(std::span<const Report> reports, Get get) {
  return get(*std::ranges::max_element(reports, {}, get));
}

/// Prints the line, and returns whether all results are right.
bool judge(std::span<const Report> reports, int of_node, Clock::time_point begin,
           Clock::time_point killed) {
  const std::string expected = "rank " + std::to_string(kKilled) + " (node ";
  bool right = true;
  auto named = killed;
  size_t memory = 0;
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    const Report& report = reports[rank];
    memory += report.memory_kb;
    right &= report.right;
    if (rank == kKilled) continue;
    named = std::max(named, report.named);
    if (std::string(report.error.data()).starts_with(expected)) continue;
    std::fprintf(stderr, "rank %zu: '%s'\n", rank, report.error.data());
    right = false;
  }
  std::printf(
      "%5zu ranks, %d on a node: start %.2f s, %zu KiB a rank, at most %zu descriptors and "
      "%zu threads, sum of 1 MiB %.3f s, dead rank named after %.2f s\n",
      reports.size(), of_node,
      seconds(most(reports, [](const Report& r) { return r.started; }) - begin),
      memory / reports.size(), most(reports, [](const Report& r) { return r.descriptors; }),
      most(reports, [](const Report& r) { return r.threads; }),
      most(reports, [](const Report& r) { return r.sum_seconds; }), seconds(named - killed));
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 0, of_node = argc > 2 ? std::atoi(argv[2]) : 16;
  if (ranks < 2 || of_node < 1) {
    std::fputs("usage: many_ranks RANKS [RANKS_OF_A_NODE]\n", stderr);
    return 2;
  }
  std::string folder = (std::filesystem::temp_directory_path() / "many_ranks.XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) dlflow::throw_errno(folder, errno);
  const std::span<Report> reports = shared_reports(size_t(ranks));
  std::vector<pid_t> children;
  const auto begin = Clock::now();
  for (int rank = 0; rank < ranks; ++rank) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    run_rank(folder + "/ranks", rank, ranks, of_node, reports[size_t(rank)]);
    ::_exit(0);
  }
  const bool ready = wait_until_ready(reports);
  std::this_thread::sleep_for(kTimeToWait);
  const auto killed = Clock::now();
  ::kill(children[kKilled], SIGKILL);
  if (!ready) std::fputs("a rank ended too early\n", stderr);
  while (::wait(nullptr) > 0) {
  }
  std::filesystem::remove_all(folder);
  return judge(reports, of_node, begin, killed) && ready ? 0 : 1;
}
