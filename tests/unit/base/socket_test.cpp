#include "base/socket.h"

#include <array>
#include <thread>

#include "base/endpoint.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace std::chrono_literals;

namespace {

Deadline soon(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

/// Two ends of a connection on this machine.
struct Pair {
  Listener listener = listen_anywhere();
  FileDescriptor a = connect_to("127.0.0.1", listener.port, 2s);
  FileDescriptor b = accept_from(listener);
};

}  // namespace

TEST_CASE("sockets connect on this machine, and a closed port refuses", "[socket]") {
  Pair pair;
  REQUIRE(pair.a);
  REQUIRE(pair.b);
  pair.listener.socket.reset();
  CHECK_FALSE(connect_to("127.0.0.1", pair.listener.port, 2s));
}

TEST_CASE("a message larger than a socket's buffer arrives whole", "[socket]") {
  Pair pair;
  const std::vector<std::byte> sent(8 << 20, std::byte(7));
  std::vector<std::byte> got(sent.size());
  bool is_sent = false;
  {
    const std::jthread sender([&] { is_sent = send_all(pair.a, sent, soon(60s)); });
    CHECK(receive_all(pair.b, got, soon(60s)));
  }
  CHECK(is_sent);
  CHECK(got == sent);
}

TEST_CASE("a connection that is silent or has ended is not waited for forever", "[socket]") {
  Pair pair;
  std::array<std::byte, 2> two{};
  CHECK_FALSE(receive_all(pair.b, two, soon(1ms)));
  REQUIRE(send_all(pair.a, std::span(two).first(1), soon(60s)));
  pair.a.reset();
  CHECK_FALSE(receive_all(pair.b, two, soon(60s)));
}

TEST_CASE("an endpoint is sent as text, and has its own token", "[socket]") {
  const Listener listener = listen_anywhere();
  const Endpoint endpoint = endpoint_of(listener);
  CHECK(endpoint.port == listener.port);
  CHECK(endpoint_from(to_string(endpoint)) == endpoint);
  CHECK(endpoint.token.size() == 32);
  CHECK(endpoint_of(listener).token != endpoint.token);
  CHECK(addresses_to_try(endpoint).front() == "127.0.0.1");
  CHECK(addresses_to_try({"", "elsewhere", 1, {"192.0.2.1"}}) ==
        std::vector<std::string>{"192.0.2.1"});
}
