#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "base/packet.h"

/// `fake_launcher local-launcher FD`: passes its socket to the test that listens at $FAKE_LAUNCHER,
/// which answers instead, and lives until that test closes the connection.
int main(int argc, char** argv) {
  const char* path = std::getenv("FAKE_LAUNCHER");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (argc != 3 || path == nullptr || std::strlen(path) >= sizeof address.sun_path) return 2;
  std::strcpy(address.sun_path, path);
  const dlflow::FileDescriptor test(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (::connect(test.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return 2;
  }
  const std::array<int, 1> socket = {std::atoi(argv[2])};
  if (dlflow::send_packet(test.get(), argv[1], socket, 0) < 0) return 2;
  char end = 0;
  return ::read(test.get(), &end, 1) == 0 ? 0 : 2;
}
