#include "runtime/comm/socket_communicator.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/in_child.h"

using namespace dlflow;
using namespace dlflow::runtime;
using dlflow::test::error_of;
using namespace std::chrono_literals;

namespace {

/// Runs one rank per element of `memories`, each in a thread, and returns their errors; empty:
/// none.
std::vector<std::string> errors_of(const std::vector<std::string>& memories,
                                   const std::function<void(SocketCommunicator&)>& work,
                                   std::chrono::milliseconds timeout = 20s) {
  std::vector<SocketEndpoint> endpoints;
  std::vector<std::string> texts, errors(memories.size());
  for (const std::string& memory : memories) endpoints.emplace_back(memory);
  for (const SocketEndpoint& endpoint : endpoints) texts.push_back(endpoint.text());
  {
    std::vector<std::jthread> threads;
    for (size_t rank = 0; rank < memories.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          SocketCommunicator comm(std::move(endpoints[rank]), int(rank), texts, timeout);
          work(comm);
        } catch (const std::exception& error) {
          errors[rank] = error.what();
        }
      });
    }
  }
  return errors;
}

std::vector<std::string> no_errors(size_t num_ranks) { return std::vector<std::string>(num_ranks); }

std::span<std::byte> bytes_of(auto& values) { return std::as_writable_bytes(std::span(values)); }

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

}  // namespace

TEST_CASE("ranks that exchanged addresses send messages of any size, in order, and to themselves",
          "[comm]") {
  const size_t num_ranks = GENERATE(1, 2, 3, 5);
  const size_t count = GENERATE(0, 1, 1000, 3'000'000);
  CHECK(errors_of(std::vector<std::string>(num_ranks, ""), [&](Communicator& comm) {
          const int ranks = comm.size();
          for (int distance = 0; distance < ranks; ++distance) {
            const int to = (comm.rank() + distance) % ranks;
            const int from = (comm.rank() - distance + ranks) % ranks;
            std::vector<int> sent(count), received(count);
            std::iota(sent.begin(), sent.end(), comm.rank());
            comm.send_receive(bytes_of(sent), to, bytes_of(received), from);
            std::iota(sent.begin(), sent.end(), from);
            require(received == sent, "other numbers than were sent");
          }
          comm.barrier();
        }) == no_errors(num_ranks));
}

TEST_CASE("early messages are kept, in order within each channel", "[comm]") {
  CHECK(errors_of({"", ""}, [](Communicator& comm) {
          constexpr int kMessages = 100;
          std::vector<std::vector<int>> values(kMessages, std::vector<int>(5000));
          std::vector<Transfer> transfers;
          if (comm.rank() == 0) {
            for (int i = 0; i < kMessages; ++i) {
              values[size_t(i)].assign(5000, i);
              transfers.push_back(comm.start_send(bytes_of(values[size_t(i)]), 1, 7 + i % 2));
            }
          } else {
            std::this_thread::sleep_for(20ms);  // any order is right; this one is usual
            for (int i = 0; i < kMessages; i += 2)
              transfers.push_back(comm.start_receive(bytes_of(values[size_t(i + 1)]), 0, 8));
            for (int i = 0; i < kMessages; i += 2)
              transfers.push_back(comm.start_receive(bytes_of(values[size_t(i)]), 0, 7));
          }
          for (Transfer& transfer : transfers) {
            while (!comm.done(transfer)) std::this_thread::yield();
          }
          for (int i = 0; i < kMessages; ++i) {
            require(values[size_t(i)] == std::vector(5000, i), "another message");
          }
          comm.barrier();
        }) == no_errors(2));
}

TEST_CASE("a message of another size is refused with rank and sizes, early or late", "[comm]") {
  const bool early = GENERATE(true, false);
  const auto errors = errors_of({"", ""}, [&](Communicator& comm) {
    std::vector<float> values(comm.rank() == 0 ? 100 : 2);
    if (comm.rank() == 1 && early) std::this_thread::sleep_for(20ms);
    if (comm.rank() == 0) comm.send(bytes_of(values), 1);
    if (comm.rank() == 1) comm.receive(bytes_of(values), 0);
    comm.receive({}, 1 - comm.rank());  // rank 0 stays
  });
  CHECK(errors[1] ==
        "rank 1 expected 8 bytes from rank 0 and got 400; start all ranks from the same program, "
        "model and options");
}

TEST_CASE("messages of a rank that ended arrive, and a wait for more names it", "[comm]") {
  const auto errors = errors_of({"", "", ""}, [](Communicator& comm) {
    std::vector<int> values(1000, 7);
    if (comm.rank() == 1) return comm.send(bytes_of(values), 0);
    if (comm.rank() == 2) return;
    comm.receive(bytes_of(values), 1);
    require(values == std::vector(1000, 7), "other numbers than were sent");
    comm.receive(bytes_of(values), 1);
  });
  CHECK_THAT(errors[0], Catch::Matches("rank 1 \\(node \\S+\\) died, or left while rank 0 still "
                                       "waits for it: its connection is closed"));
}

TEST_CASE("a rank that ended before any connection to it is named", "[comm]") {
  // A barrier of 8 ranks connects rank 0 to 1, 2, 4, 6 and 7.
  const auto errors = errors_of(std::vector<std::string>(8, ""), [](Communicator& comm) {
    if (comm.rank() == 0) comm.receive({}, 3);
  });
  CHECK_THAT(errors[0],
             Catch::Matches("rank 0: cannot connect to rank 3 \\(node \\S+\\): it has ended, or a "
                            "firewall is between the nodes"));
}

TEST_CASE("messages of two ranks that begin at the same time keep their order", "[comm]") {
  constexpr int kMessages = 50;
  CHECK(errors_of(std::vector<std::string>(12, ""), [](Communicator& comm) {
          std::vector<int> sent(kMessages * size_t(comm.size())), received(sent.size());
          std::vector<Transfer> transfers;
          for (size_t i = 0; i < sent.size(); ++i) {
            const int peer = int(i) / kMessages;
            sent[i] = comm.rank() * kMessages + int(i) % kMessages;
            transfers.push_back(
                comm.start_send(bytes_of(sent).subspan(i * sizeof(int), 4), peer, 5));
            transfers.push_back(
                comm.start_receive(bytes_of(received).subspan(i * sizeof(int), 4), peer, 5));
          }
          for (Transfer& transfer : transfers) {
            while (!comm.done(transfer)) std::this_thread::yield();
          }
          for (size_t i = 0; i < sent.size(); ++i)
            require(received[i] == int(i), "another message");
          comm.barrier();
        }) == no_errors(12));
}

TEST_CASE("a group raises the limit of open files, and names the hard one if it is too low",
          "[comm]") {
  CHECK(test::in_child([] {
          const rlimit low{64, 4096};
          ::setrlimit(RLIMIT_NOFILE, &low);
          if (errors_of({"", "", ""}, [](Communicator& comm) { comm.barrier(); }) != no_errors(3)) {
            return 1;
          }
          rlimit now{};
          ::getrlimit(RLIMIT_NOFILE, &now);
          return now.rlim_cur > 500 && now.rlim_cur <= 4096 ? 0 : 2;
        }) == 0);
  CHECK(test::in_child([] {
          const rlimit low{30, 30};
          ::setrlimit(RLIMIT_NOFILE, &low);
          const auto errors = errors_of(
              std::vector<std::string>(8, ""), [](Communicator&) {}, 2s);
          return std::ranges::any_of(
                     errors,
                     [](const std::string& error) {
                       return error.find(
                                  "at most 30 files and connections (its hard limit is 30)") !=
                              error.npos;
                     })
                     ? 0
                     : 1;
        }) == 0);
}

TEST_CASE("ranks with a common memory share it, others do not", "[comm]") {
  CHECK(errors_of({"a", "b", "a", "b", "a"}, [](Communicator& comm) {
          const std::vector<int> nodes(comm.nodes().begin(), comm.nodes().end());
          require(nodes == std::vector{0, 1, 0, 1, 0}, "other nodes");
          require(comm.node_size() == (comm.rank() % 2 == 0 ? 3 : 2), "another size");
          require(comm.node_rank() == comm.rank() / 2, "another place");
          for (size_t bytes : {1, 5000}) {
            const auto parts = comm.allocate_shared(bytes);
            for (std::byte* part : parts) require(part[bytes - 1] == std::byte(0), "not zeroed");
            comm.barrier();
            parts[size_t(comm.node_rank())][bytes - 1] = std::byte(comm.rank() + 1);
            comm.barrier();
            for (size_t i = 0; i < parts.size(); ++i) {
              require(parts[i][bytes - 1] == std::byte(2 * i + size_t(comm.rank() % 2) + 1),
                      "another rank's memory");
            }
          }
          comm.barrier();
        }) == no_errors(5));
}

TEST_CASE("a missing rank is named", "[comm]") {
  SocketEndpoint own, other;
  const std::vector<std::string> texts = {own.text(), other.text()};
  CHECK(error_of([&] {
          SocketCommunicator(std::move(own), 0, texts, 50ms);
        }).starts_with("rank 0: rank 1 did not answer within 0.05 s"));
  CHECK_THAT(error_of([&] {
               SocketCommunicator(SocketEndpoint(), 0, {texts[0], "x y 0"}, 50ms);
             }),
             Catch::Matches("rank 1: its address is not one .*"));
}

TEST_CASE("a descriptor that a rank's child keeps open does not hide the rank's death", "[comm]") {
  SocketEndpoint own, other;
  const std::vector<std::string> texts = {own.text(), other.text()};
  int end[2];  // open for as long as the grandchild should live
  REQUIRE(::pipe(end) == 0);
  const pid_t rank1 = ::fork();
  if (rank1 == 0) {
    ::close(end[1]);
    SocketCommunicator comm(std::move(other), 1, texts, 10s);
    if (::fork() == 0) {
      comm.close_in_child();
      char nothing;
      (void)!::read(end[0], &nothing, 1);
    }
    ::_exit(0);
  }
  SocketCommunicator comm(std::move(own), 0, texts, 10s);
  CHECK_THAT(error_of([&] { comm.receive({}, 1); }), Catch::StartsWith("rank 1 (node "));
  ::close(end[1]);
  ::waitpid(rank1, nullptr, 0);
}
