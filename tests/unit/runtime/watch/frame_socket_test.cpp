#include "runtime/watch/frame_socket.h"

#include <sys/socket.h>

#include <array>

#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace std::chrono_literals;

namespace {

struct Pair {
  Pair() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
    a = FrameSocket(FileDescriptor(ends[0]));
    b = FrameSocket(FileDescriptor(ends[1]));
  }
  FrameSocket a, b;
};

}  // namespace

TEST_CASE("frames arrive whole and in order, even after the sender has closed", "[watch]") {
  Pair pair;
  CHECK_FALSE(pair.b.receive());
  pair.a.send(FrameKind::Pulse, "first");
  pair.a.send(FrameKind::Goodbye);
  pair.a.close();
  const auto first = pair.b.receive();
  REQUIRE(first);
  CHECK(first->kind == FrameKind::Pulse);
  CHECK(first->body == "first");
  CHECK(pair.b.receive()->kind == FrameKind::Goodbye);
  CHECK_FALSE(pair.b.receive());
  CHECK_FALSE(pair.b.is_open());
}

TEST_CASE("a frame that the connection does not take at once is sent later", "[watch]") {
  Pair pair;
  const std::string body(FrameSocket::kMaxBytes, 'x');
  pair.a.send(FrameKind::Calls, body);
  REQUIRE(pair.a.has_to_send());
  std::optional<Frame> frame;
  while (!frame) {
    frame = pair.b.receive();
    pair.a.flush();
  }
  CHECK(frame->body == body);
}

TEST_CASE("a frame that comes byte by byte is put together", "[watch]") {
  Pair from, to;
  from.a.send(FrameKind::Pulse, "body");
  std::array<char, 64> bytes{};
  const ssize_t size = ::recv(from.b.descriptor(), bytes.data(), bytes.size(), 0);
  std::optional<Frame> frame;
  for (ssize_t i = 0; i < size; ++i) {
    CHECK_FALSE(frame);
    REQUIRE(::send(to.a.descriptor(), &bytes[size_t(i)], 1, 0) == 1);
    frame = to.b.receive();
  }
  REQUIRE(frame);
  CHECK(frame->body == "body");
}

TEST_CASE("a frame of the largest length is read, in any pieces", "[watch]") {
  Pair pair;
  const std::string body(16384 - 4, 'x');  // with its header, four bytes more than one read takes
  pair.a.send(FrameKind::Hello, body);
  REQUIRE_FALSE(pair.a.has_to_send());
  const auto frame = pair.b.receive(body.size());
  REQUIRE(frame);
  CHECK(frame->body == body);
}

TEST_CASE("a closed link gives no more frames", "[watch]") {
  Pair pair;
  for (const char* body : {"first", "second"}) pair.a.send(FrameKind::Pulse, body);
  REQUIRE(pair.b.receive());
  pair.b.close();
  CHECK_FALSE(pair.b.receive());
}

TEST_CASE("a frame that is too long closes the link", "[watch]") {
  Pair pair;
  pair.a.send(FrameKind::Hello, std::string(1000, 'x'));
  CHECK_FALSE(pair.b.receive(999));
  CHECK_FALSE(pair.b.is_open());
}

TEST_CASE("a link whose peer has gone has nothing to send", "[watch]") {
  Pair pair;
  pair.b.close();
  pair.a.send(FrameKind::Pulse, "late");
  CHECK_FALSE(pair.a.has_to_send());
  CHECK_FALSE(pair.a.receive());
  CHECK_FALSE(pair.a.is_open());
  pair.a.send(FrameKind::Pulse, "later");
  CHECK_FALSE(pair.a.has_to_send());
}

TEST_CASE("a link ends if its peer goes without reading all", "[watch]") {
  Pair pair;
  pair.a.send(FrameKind::Pulse, "unread");
  pair.b.close();
  CHECK_FALSE(pair.a.receive());
  CHECK_FALSE(pair.a.receive());
  CHECK_FALSE(pair.a.is_open());
}
