#include <poll.h>

#include <vector>

#include "runtime/watch/frame_socket.h"
#include "runtime/watch/frames.h"
#include "runtime/watch/watch_center.h"
#include "tests/support/catch.h"

/// Tests connections to rank 0 by other processes than ranks.
using namespace dlflow;
using namespace dlflow::runtime;
using namespace std::chrono_literals;

namespace {

constexpr int kRanks = 2;
constexpr size_t kMost = 1 + kRanks + kMaxStrangers;  // the listener, ranks and strangers

class Center {
 public:
  FileDescriptor connect() const {
    return connect_to("127.0.0.1", center.children().endpoint().port, 2000ms);
  }

  size_t descriptors() const {
    std::vector<pollfd> all;
    center.add_to(all);
    return all.size();
  }

  void turn(std::chrono::seconds later = 0s) { center.turn({}, false, start + later); }

  /// The first message of a rank.
  static std::string hello(int rank, const std::string& token) {
    return to_body(HelloHead{rank, uint32_t(token.size())}) + token + "a-node";
  }

  CallLog calls;
  WatchCenter center{kRanks, calls, {}};
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

std::vector<FrameKind> kinds_heard(FrameSocket& rank) {
  std::vector<FrameKind> kinds;
  while (const auto frame = rank.receive()) kinds.push_back(frame->kind);
  return kinds;
}

}  // namespace

TEST_CASE("silent strangers take a bounded number of descriptors, and ranks still join",
          "[watch][attack]") {
  Center rank0;
  std::vector<FileDescriptor> strangers;
  for (size_t i = 0; i < 3 * kMost; ++i) {
    strangers.push_back(rank0.connect());
    REQUIRE(strangers.back());
    rank0.turn();
    REQUIRE(rank0.descriptors() <= kMost);
  }
  FrameSocket rank(rank0.connect());
  rank.send(FrameKind::Hello, Center::hello(1, rank0.center.children().endpoint().token));
  rank0.turn();
  CHECK(rank0.center.children().num_joined() == 1);
}

TEST_CASE("simultaneous strangers take a bounded number of descriptors", "[watch][attack]") {
  Center rank0;
  std::vector<FileDescriptor> strangers;
  for (size_t i = 0; i < 2 * kMost; ++i) strangers.push_back(rank0.connect());
  FrameSocket rank(rank0.connect());
  rank.send(FrameKind::Hello, Center::hello(1, rank0.center.children().endpoint().token));
  for (size_t turns = 0; rank0.center.children().num_joined() == 0; ++turns) {
    REQUIRE(turns < 3 * kMost);
    rank0.turn();
    REQUIRE(rank0.descriptors() <= kMost);
  }
}

TEST_CASE("a stranger has two seconds to show the token", "[watch][attack]") {
  Center rank0;
  const FileDescriptor stranger = rank0.connect();
  rank0.turn();
  CHECK(rank0.descriptors() == 2);
  rank0.turn(2s);
  CHECK(rank0.descriptors() == 2);
  rank0.turn(3s);
  CHECK(rank0.descriptors() == 1);
}

TEST_CASE("strangers are rejected once all ranks have joined", "[watch][attack]") {
  Center rank0;
  const FileDescriptor stranger = rank0.connect();
  rank0.turn();
  REQUIRE(rank0.descriptors() == 2);
  FrameSocket rank(rank0.connect());
  rank.send(FrameKind::Hello, Center::hello(1, rank0.center.children().endpoint().token));
  rank0.turn();
  CHECK(rank0.center.children().num_joined() == 1);
  CHECK(rank0.descriptors() == 1);  // the rank's descriptor
}

TEST_CASE("a rank is asked for its calls only if they differ", "[watch]") {
  Center rank0;
  FrameSocket rank(rank0.connect());
  rank.send(FrameKind::Hello, Center::hello(1, rank0.center.children().endpoint().token));
  for (int i = 0; i < 3; ++i) rank0.turn(std::chrono::seconds(i));
  CHECK(rank0.center.children().num_joined() == 1);
  CHECK(rank0.descriptors() == 1);  // there is no listener any more
  CHECK(kinds_heard(rank) == std::vector{FrameKind::Welcome});
  rank.send(FrameKind::Differs);
  for (int i = 3; i < 6; ++i) rank0.turn(std::chrono::seconds(i));
  CHECK(kinds_heard(rank) == std::vector{FrameKind::Ask});
}

TEST_CASE("data that a rank's connection does not take at once is sent later", "[watch]") {
  Center rank0;
  FrameSocket rank(rank0.connect());
  rank.send(FrameKind::Hello, Center::hello(1, rank0.center.children().endpoint().token));
  rank0.turn();
  const auto has_to_send = [&] {
    std::vector<pollfd> descriptors;
    rank0.center.add_to(descriptors);
    return (descriptors.at(0).events & POLLOUT) != 0;
  };
  size_t sent = 1, heard = 0;  // the welcome
  for (; !has_to_send(); ++sent) rank0.center.turn({}, true, rank0.start);
  while (has_to_send() || heard < sent) {
    heard += kinds_heard(rank).size();
    rank0.turn();
  }
  CHECK(heard == sent);
}

TEST_CASE("rank 0 sends its goodbye once all ranks have done their work", "[watch]") {
  Center rank0;
  FrameSocket rank(rank0.connect());
  rank.send(FrameKind::Hello, Center::hello(1, rank0.center.children().endpoint().token));
  rank0.turn();
  CHECK_FALSE(rank0.center.leave());
  CHECK(kinds_heard(rank) == std::vector{FrameKind::Welcome});
  rank.send(FrameKind::Goodbye);
  rank0.turn();
  CHECK_FALSE(rank0.center.leave());
  CHECK_FALSE(rank0.center.leave());
  CHECK(kinds_heard(rank) == std::vector{FrameKind::Goodbye});  // only once
}

TEST_CASE("a stranger with the token but an invalid greeting is rejected", "[watch][attack]") {
  Center rank0;
  const std::string token = rank0.center.children().endpoint().token;
  const std::string good = Center::hello(1, token);
  const auto come = [&](FrameKind kind, const std::string& body) {
    FrameSocket stranger(rank0.connect());
    stranger.send(kind, body);
    rank0.turn();
    return rank0.center.children().num_joined();
  };
  for (const int rank : {-1, 0, kRanks, 1 << 30}) {
    CAPTURE(rank);
    CHECK(come(FrameKind::Hello, Center::hello(rank, token)) == 0);
  }
  for (const FrameKind kind : {FrameKind::Welcome, FrameKind::Pulse, FrameKind::Goodbye}) {
    CHECK(come(kind, good) == 0);
  }
  CHECK(come(FrameKind::Hello, good.substr(0, sizeof(HelloHead) - 1)) == 0);
  CHECK(come(FrameKind::Hello, "") == 0);
  CHECK(rank0.descriptors() == 1);
  CHECK(come(FrameKind::Hello, good) == 1);
}

TEST_CASE("a stranger with a wrong token is rejected", "[watch][attack]") {
  Center rank0;
  const std::string right = rank0.center.children().endpoint().token;
  for (const std::string& wrong :
       {std::string(), right.substr(1), right + "0", std::string(right.size(), '0')}) {
    FrameSocket stranger(rank0.connect());
    stranger.send(FrameKind::Hello, Center::hello(1, wrong));
    rank0.turn();
    CHECK(rank0.center.children().num_joined() == 0);
    CHECK(rank0.descriptors() == 1);
  }
}
