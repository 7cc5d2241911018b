#include "runtime/comm/descriptor_mailbox.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/skip.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

/// A pipe whose writing end is sent, and whose reading end shows which process has it.
struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() { REQUIRE(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  char read() const {
    char byte = 0;
    return ::read(ends[0], &byte, 1) == 1 ? byte : '-';
  }
};

/// The result of `work` in a child process.
int status_of(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Returns 0 if it was sent, 1 if it was refused.
int send_from(const DescriptorMailbox& mailbox, int32_t sender, int descriptor) {
  try {
    DescriptorMailbox::send(mailbox.address(), sender, descriptor);
    return 0;
  } catch (const Error&) {
    return 1;
  }
}

}  // namespace

TEST_CASE("a copied descriptor refers to the same file", "[comm]") {
  DescriptorMailbox mailbox(4);
  const Pipe first, second;
  DescriptorMailbox::send(mailbox.address(), 3, first.ends[1]);
  DescriptorMailbox::send(mailbox.address(), 1, second.ends[1]);
  const DescriptorMailbox::Letter one = mailbox.receive(), two = mailbox.receive();
  CHECK(one.sender == 3);
  CHECK(two.sender == 1);
  REQUIRE(::write(two.descriptor.get(), "b", 1) == 1);
  CHECK(first.read() == '-');
  CHECK(second.read() == 'b');
}

TEST_CASE("an empty mailbox and a closed one report errors", "[comm]") {
  DescriptorMailbox::Address gone;
  {
    DescriptorMailbox mailbox(1);
    gone = mailbox.address();
    CHECK_FALSE(test::error_of([&] { mailbox.receive(); }).empty());
  }
  const Pipe pipe;
  CHECK_FALSE(test::error_of([&] { DescriptorMailbox::send(gone, 0, pipe.ends[1]); }).empty());
}

TEST_CASE("a process in namespaces of its own sends to one outside", "[comm]") {
  DescriptorMailbox mailbox(1);
  const Pipe pipe;
  constexpr int kNone = 77;
  const uid_t user = ::geteuid();
  const int status = status_of([&] {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWIPC) != 0) return kNone;
    const std::string map = "0 " + std::to_string(user) + " 1";
    const int file = ::open("/proc/self/uid_map", O_WRONLY);
    if (::write(file, map.data(), map.size()) != ssize_t(map.size())) return kNone;
    return send_from(mailbox, 7, pipe.ends[1]);
  });
  if (status == kNone) test::skip("users may make no user namespaces here");
  REQUIRE(status == 0);
  const DescriptorMailbox::Letter letter = mailbox.receive();
  CHECK(letter.sender == 7);
  REQUIRE(::write(letter.descriptor.get(), "x", 1) == 1);
  CHECK(pipe.read() == 'x');
}

TEST_CASE("messages from another user are discarded, and no message is sent to another user",
          "[comm]") {
  if (::geteuid() != 0) test::skip("only root can be another user");
  DescriptorMailbox mailbox(4);
  const Pipe pipe;
  const auto as_nobody = [](const std::function<int()>& work) {
    return status_of([&] { return ::setresuid(65534, 65534, 65534) == 0 ? work() : 2; });
  };
  CHECK(as_nobody([&] { return send_from(mailbox, 7, pipe.ends[1]); }) == 1);
  CHECK_FALSE(test::error_of([&] { mailbox.receive(); }).empty());
  DescriptorMailbox::send(mailbox.address(), 2, pipe.ends[1]);
  CHECK(mailbox.receive().sender == 2);
}
