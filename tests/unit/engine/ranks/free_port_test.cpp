#include <sched.h>

#include <optional>
#include <set>

#include "base/file.h"
#include "engine/ranks/rank_nodes.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/syscalls.h"

using namespace dlflow;
using namespace dlflow::test;

TEST_CASE("free ports differ, and the kernel gives none of them to a connection", "[ranks]") {
  int first = 0;
  int last = 0;
  const std::string range = read_file("/proc/sys/net/ipv4/ip_local_port_range");
  REQUIRE(std::sscanf(range.c_str(), "%d %d", &first, &last) == 2);
  std::set<int> ports;
  for (int i = 0; i < 50; ++i) {
    const int port = free_port();
    CHECK((port >= 20000 && port < 65536));
    CHECK((port < first || port > last));
    ports.insert(port);
  }
  CHECK(ports.size() > 40);
}

TEST_CASE("a port that is taken on IPv4 or IPv6 is not free", "[ranks]") {
  const bool on_ipv4 = GENERATE(true, false);
  int binds = 0;
  const auto fate_of = [&](uint64_t call) {
    if (call != SYS_bind) return Fate::made();
    const bool is_first = binds++ % 2 == 0;  // IPv4 is asked first
    return on_ipv4 || !is_first ? Fate::fails(EADDRINUSE) : Fate::made();
  };
  const auto ended = run_watched(fate_of, [] { free_port(); });
  if (!ended) return skip("system calls cannot be traced");
  CHECK(ended == 1);
  CHECK(binds >= 500);  // it gave up after many tries
}

TEST_CASE("a machine without IPv6 or without its addresses has free ports", "[ranks]") {
  const auto call = GENERATE(SYS_bind, SYS_socket);
  const auto ended =
      run_without(call, call == SYS_bind ? EADDRNOTAVAIL : EAFNOSUPPORT, [] { free_port(); });
  if (!ended) return skip("system calls cannot be traced");
  CHECK(ended == 0);
}

namespace {

/// Runs free_port() while connections take ports of `range`. Returns 0 if several results are good,
/// or nothing if a network namespace cannot be made.
std::optional<int> with_range(const char* range, bool (*is_good)(int)) {
  constexpr int kCannot = 77;
  const auto ended = run_watched([](uint64_t) { return Fate::made(); },
                                 [&] {
                                   if (::unshare(CLONE_NEWNET) != 0)
                                     ::_exit(kCannot);  // this machine's range stays unchanged
                                   std::FILE* const file =
                                       std::fopen("/proc/sys/net/ipv4/ip_local_port_range", "w");
                                   if (file == nullptr) ::_exit(kCannot);
                                   std::fputs(range, file);
                                   if (std::fclose(file) != 0) ::_exit(kCannot);
                                   for (int i = 0; i < 20; ++i) {
                                     if (!is_good(free_port())) ::_exit(2);
                                   }
                                 });
  return ended == kCannot ? std::nullopt : ended;
}

}  // namespace

TEST_CASE("the range of ports for connections is read from the kernel", "[ranks]") {
  const auto above = with_range("20000 60000", [](int port) { return port > 60000; });
  const auto below = with_range("40000 65535", [](int port) { return port < 40000; });
  if (!above || !below) return skip("it needs a network of its own");
  CHECK(above == 0);
  CHECK(below == 0);
}

TEST_CASE("a free port is found even if connections may take every port", "[ranks]") {
  const auto ended =
      with_range("20000 65535", [](int port) { return port >= 20000 && port <= 65535; });
  if (!ended) return skip("it needs a network of its own");
  CHECK(ended == 0);
}
