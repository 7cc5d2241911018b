#include "base/packet.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "tests/support/catch.h"

using namespace dlflow;

namespace {

struct Ends {
  FileDescriptor here;
  FileDescriptor there;
};

Ends socket_ends() {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

}  // namespace

TEST_CASE("a packet carries copies of open descriptors", "[packet]") {
  const Ends ends = socket_ends();
  std::array<int, 2> pipe{};
  REQUIRE(::pipe2(pipe.data(), O_CLOEXEC) == 0);
  const FileDescriptor reads(pipe[0]);
  const FileDescriptor writes(pipe[1]);
  CHECK(send_packet(ends.here.get(), "both", pipe, 0) == 4);

  std::array<char, 16> bytes{};
  std::vector<FileDescriptor> received;
  CHECK(receive_packet(ends.there.get(), bytes, received, 0) == 4);
  CHECK(std::string(bytes.data(), 4) == "both");
  REQUIRE(received.size() == 2);
  CHECK((::fcntl(received[0].get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(::write(received[1].get(), "x", 1) == 1);
  char byte = 0;
  CHECK(::read(received[0].get(), &byte, 1) == 1);
  CHECK(byte == 'x');
  CHECK(::fcntl(reads.get(), F_GETFD) >= 0);  // the sender keeps its own
}

TEST_CASE("a packet without descriptors has none", "[packet]") {
  const Ends ends = socket_ends();
  CHECK(send_packet(ends.here.get(), "none", {}, 0) == 4);
  std::array<char, 16> bytes{};
  std::vector<FileDescriptor> received;
  CHECK(receive_packet(ends.there.get(), bytes, received, 0) == 4);
  CHECK(received.empty());
}

TEST_CASE("an empty socket and a closed one are reported", "[packet]") {
  Ends ends = socket_ends();
  std::array<char, 16> bytes{};
  std::vector<FileDescriptor> received;
  CHECK(receive_packet(ends.there.get(), bytes, received, MSG_DONTWAIT) == -1);
  CHECK(errno == EAGAIN);
  ends.here.reset();
  CHECK(receive_packet(ends.there.get(), bytes, received, 0) == 0);
  CHECK(send_packet(ends.there.get(), "x", {}, 0) == -1);  // and no SIGPIPE
}
