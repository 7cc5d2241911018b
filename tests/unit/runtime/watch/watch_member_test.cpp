#include "runtime/watch/watch_member.h"

#include <poll.h>

#include <thread>

#include "runtime/watch/frames.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace std::chrono_literals;

namespace {

/// Rank 0, played by the test: a listener, and a connection to the one rank.
struct PlayedCenter {
  PlayedCenter() : listener(listen_anywhere()), endpoint(endpoint_of(listener)) {
    endpoint.node = "b1";
    endpoint.addresses = {"127.0.0.1"};
  }

  /// Accepts the connection and answers the first message with `kind`, or closes it.
  void welcome(std::optional<FrameKind> kind) {
    FileDescriptor socket;
    while (!(socket = accept_from(listener))) std::this_thread::yield();
    link = FrameSocket(std::move(socket));
    while (!(hello = link.receive()) && link.is_open()) std::this_thread::yield();
    kind ? link.send(*kind) : link.close();
  }

  std::optional<Frame> next() {
    std::optional<Frame> frame;
    while (!(frame = link.receive()) && link.is_open()) std::this_thread::yield();
    return frame;
  }

  Listener listener;
  Endpoint endpoint;
  FrameSocket link;
  std::optional<Frame> hello;
};

/// Rank 1 with a centre that welcomes it, and a clock that the test advances.
struct Leaf {
  explicit Leaf(bool tells = true) {
    std::jthread thread([this] { center.welcome(FrameKind::Welcome); });
    leaf.emplace(WatchMember::TreePosition{1, 2, center.endpoint, tells}, calls,
                 WatchLimits{10s, 60s});
    now = std::chrono::steady_clock::now();
  }

  /// Returns its next message after it has read those of rank 0.
  Frame reply() {
    std::optional<Frame> frame;
    while (!frame) {
      turn();
      frame = center.link.receive();
    }
    return *frame;
  }

  WatchEnd::Outcome turn(std::chrono::milliseconds time = 0ms) {
    now += time;
    return leaf->turn(pulse, false, now);
  }

  PlayedCenter center;
  CallLog calls;
  Pulse pulse;
  std::optional<WatchMember> leaf;
  WatchEnd::Time now;
};

}  // namespace

TEST_CASE("a rank introduces itself, and is connected after its welcome", "[watch]") {
  Leaf rank;
  REQUIRE(rank.leaf->is_connected());
  REQUIRE(rank.center.hello);
  CHECK(rank.center.hello->kind == FrameKind::Hello);
  std::string_view text;
  const auto head = from_body<HelloHead>(rank.center.hello->body, &text);
  REQUIRE(head);
  CHECK(head->rank == 1);
  CHECK(text.substr(0, head->token_bytes) == rank.center.endpoint.token);
}

TEST_CASE("data that the connection does not take at once is sent later", "[watch]") {
  Leaf rank;
  const auto has_to_send = [&] {
    std::vector<pollfd> descriptors;
    rank.leaf->add_to(descriptors);
    return (descriptors.at(0).events & POLLOUT) != 0;
  };
  size_t sent = 0, heard = 0;
  for (; !has_to_send(); ++sent) rank.leaf->turn(rank.pulse, true, rank.now);
  while (has_to_send() || heard < sent) {
    if (rank.center.link.receive()) ++heard;
    rank.turn();
  }
  CHECK(heard == sent);
}

TEST_CASE("a peer that does not answer with a welcome is not rank 0", "[watch]") {
  const auto answer = GENERATE(std::optional<FrameKind>(), std::optional(FrameKind::Pulse));
  PlayedCenter center;
  const CallLog calls;
  std::optional<WatchMember> leaf;
  {
    std::jthread thread([&] { center.welcome(answer); });
    leaf.emplace(WatchMember::TreePosition{1, 2, center.endpoint, true}, calls, WatchLimits{});
  }
  CHECK_FALSE(leaf->is_connected());
}

TEST_CASE("the wait for a silent peer's welcome ends", "[watch]") {
  const PlayedCenter center;  // the system accepts connections for it
  const CallLog calls;
  const WatchMember leaf({1, 2, center.endpoint, true}, calls, WatchLimits{}, 0ms);
  CHECK_FALSE(leaf.is_connected());
}

TEST_CASE("a silent rank 0 causes one warning, then an error on the ranks that wait", "[watch]") {
  const bool tells = GENERATE(true, false);
  Leaf rank(tells);
  rank.turn();
  rank.pulse.waits = true;
  rank.pulse.calls = 7;
  CHECK(rank.turn(9999ms).warning.empty());
  const auto warned = rank.turn(1ms);
  CHECK_FALSE(warned.error);
  CHECK(warned.warning ==
        (tells ? "rank 0 (node b1): silent for 10 s; its process is stopped, or its node cannot be "
                 "reached; others wait for it in call 7"
               : ""));
  const auto after = rank.turn(49999ms);
  CHECK(after.warning.empty());
  CHECK_FALSE(after.error);
  const auto ended = rank.turn(1ms);
  REQUIRE(ended.error);
  CHECK(ended.error->fault() == Fault::Stalled);
  CHECK(ended.tells == tells);
  CHECK_THAT(ended.error->what(), Catch::StartsWith("rank 0 (node b1): silent for 60 s;") &&
                                      Catch::EndsWith("; others wait for it in call 7"));
}

TEST_CASE("a rank that does not wait, or makes progress, tolerates a silent rank 0", "[watch]") {
  Leaf rank;
  CHECK_FALSE(rank.turn(1h).error);  // it does not wait
  rank.pulse.waits = true;
  for (int i = 0; i < 3; ++i) {
    ++rank.pulse.progress;  // the rank's wait ends
    CHECK_FALSE(rank.turn(1h).error);
  }
}

TEST_CASE("a rank sends rank 0 its calls, differences and errors", "[watch]") {
  Leaf rank;
  rank.calls.add({"barrier"});
  rank.center.link.send(FrameKind::Ask);
  const Frame asked = rank.reply();
  CHECK(asked.kind == FrameKind::Calls);
  CHECK(calls_from(asked.body).count == 1);
  CallLog others;
  others.add({"end"});
  Pulse pulse;
  pulse.calls = others.head().count;
  pulse.hash = others.head().hash;
  for (int i = 0; i < 2; ++i) rank.center.link.send(FrameKind::Pulse, to_body(pulse));
  pulse.calls = 2;  // this rank has not made call 2
  rank.center.link.send(FrameKind::Pulse, to_body(pulse));
  rank.center.link.send(FrameKind::Ask);  // the last message
  CHECK(rank.reply().kind == FrameKind::Differs);
  CHECK(rank.reply().kind == FrameKind::Calls);  // it reports the difference once
  rank.leaf->fail(Errc::NotFound, "no such file", rank.now);
  const auto failed = rank.center.next();
  REQUIRE(failed);
  CHECK(failed->kind == FrameKind::Failed);
  CHECK(std::string(error_from(failed->body)->what()) == "no such file");
}

TEST_CASE("rank 0's verdict holds for all, and its goodbye lets a rank leave", "[watch]") {
  Leaf rank;
  CHECK_FALSE(rank.leaf->leave());
  CHECK_FALSE(rank.leaf->leave());
  rank.center.link.send(FrameKind::Goodbye);
  std::vector<pollfd> descriptors;
  rank.leaf->add_to(descriptors);
  CHECK(descriptors.size() == 1);
  while (!rank.leaf->leave()) CHECK_FALSE(rank.turn().error);
  CHECK_FALSE(rank.turn(1h).error);
  descriptors.clear();
  rank.leaf->add_to(descriptors);
  CHECK(descriptors.empty());
  CHECK(rank.center.next()->kind == FrameKind::Goodbye);
  CHECK_FALSE(rank.center.next());  // only once

  Leaf other;
  other.center.link.send(FrameKind::Verdict,
                         to_body(WatchError(Fault::Failed, Errc::NotFound, "no such file")));
  WatchEnd::Outcome outcome;
  while (!outcome.error) outcome = other.turn();
  CHECK(std::string(outcome.error->what()) == "no such file");
  CHECK_FALSE(outcome.tells);  // rank 0 has printed it
  other.center.link.close();
  outcome = {};
  while (!outcome.error) outcome = other.turn();
  CHECK(outcome.error->fault() == Fault::Lost);
  CHECK(outcome.tells);
}
