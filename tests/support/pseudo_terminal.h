#pragma once

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/error.h"
#include "base/file.h"

namespace dlflow::test {

/// A terminal with `rows` and `columns` for a program, and the output drawn on it.
class PseudoTerminal {
 public:
  PseudoTerminal(unsigned short rows, unsigned short columns)
      : screen_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    DLFLOW_CHECK(screen_.get() >= 0 && ::grantpt(screen_.get()) == 0 &&
                 ::unlockpt(screen_.get()) == 0);
    program_ = FileDescriptor(::open(::ptsname(screen_.get()), O_RDWR | O_NOCTTY));
    termios raw{};
    DLFLOW_CHECK(::tcgetattr(program_.get(), &raw) == 0);
    ::cfmakeraw(&raw);
    DLFLOW_CHECK(::tcsetattr(program_.get(), TCSANOW, &raw) == 0);
    const winsize size{.ws_row = rows, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    DLFLOW_CHECK(::ioctl(program_.get(), TIOCSWINSZ, &size) == 0);
  }

  int descriptor() const { return program_.get(); }

  /// The bytes written since the last call.
  std::string drawn() const {
    std::string text;
    std::array<char, 4096> bytes{};
    pollfd ready{screen_.get(), POLLIN, 0};
    while (::poll(&ready, 1, 0) == 1) {
      const ssize_t count = ::read(screen_.get(), bytes.data(), bytes.size());
      if (count <= 0) break;
      text.append(bytes.data(), size_t(count));
    }
    return text;
  }

 private:
  FileDescriptor screen_;
  FileDescriptor program_;
};

}  // namespace dlflow::test
