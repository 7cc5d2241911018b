#include "engine/ranks/free_port.h"

#include <set>

#include "base/file.h"
#include "base/socket.h"
#include "tests/support/catch.h"

using namespace dlflow;

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
