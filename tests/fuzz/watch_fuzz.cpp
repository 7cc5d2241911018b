#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <span>

#include "base/error.h"
#include "base/socket.h"
#include "runtime/watch/frame_socket.h"
#include "runtime/watch/frames.h"
#include "runtime/watch/pulse.h"
#include "runtime/watch/watch_center.h"
#include "tests/fuzz/fuzz.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace std::chrono_literals;

namespace {

/// Stands in an input for the token of its receiver.
constexpr std::string_view kToken = "<the token of this very endpoint>";

std::string with_token(std::string input, const Endpoint& endpoint) {
  const size_t at = input.find(kToken);
  if (at != input.npos) input.replace(at, kToken.size(), endpoint.token);
  return input;
}

FileDescriptor connect_here(uint16_t port) {
  FileDescriptor socket = connect_to("127.0.0.1", port, 10s);
  DLFLOW_CHECK(socket);
  return socket;
}

void send(const FileDescriptor& socket, std::string_view bytes) {
  send_all(socket, std::as_bytes(std::span(bytes)), std::chrono::steady_clock::now() + 10s);
  ::shutdown(socket.get(), SHUT_WR);
}

/// Checks that rank 0 of two accepts only rank 1 with the token.
void greet_rank_0(FrameKind kind, const std::string& input) {
  const CallLog calls;
  WatchCenter center(2, calls, {});
  const std::string body = with_token(input, center.children().endpoint());
  FrameSocket stranger(connect_here(center.children().endpoint().port));
  stranger.send(kind, body);
  std::vector<pollfd> waiting;
  do {  // until it has joined, or only the listener is left
    waiting.clear();
    center.add_to(waiting);
    ::poll(waiting.data(), waiting.size(), 1000);
    center.turn({}, false, std::chrono::steady_clock::now());
    waiting.clear();
    center.add_to(waiting);
  } while (center.children().num_joined() == 0 && waiting.size() > 1);
  std::string_view rest;
  const auto head = from_body<HelloHead>(body, &rest);
  const bool is_rank = kind == FrameKind::Hello && head && head->rank == 1 &&
                       head->token_bytes == center.children().endpoint().token.size() &&
                       rest.starts_with(center.children().endpoint().token);
  DLFLOW_CHECK(center.children().num_joined() == (is_rank && body.size() <= 512 ? 1 : 0));
}

/// Cuts the bytes of a connection of the side channel into frames and reads them.
void read_frames(const std::string& input) {
  int ends[2];
  DLFLOW_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
  FrameSocket link{FileDescriptor(ends[1])};
  {
    const FileDescriptor sender(ends[0]);
    send(sender, input);
  }
  while (const auto frame = link.receive(4096)) {
    DLFLOW_CHECK(frame->body.size() <= 4096);
    from_body<HelloHead>(frame->body);
    from_body<Pulse>(frame->body);
    const auto error = error_from(frame->body);
    DLFLOW_CHECK(!error || std::strlen(error->what()) <= frame->body.size());
    DLFLOW_CHECK(calls_from(frame->body).newest.size() <= frame->body.size() / sizeof(CallRecord));
  }
  DLFLOW_CHECK(!link.is_open());
}

template <typename T>
std::string raw(const T& value) {
  return to_body(value);
}

std::string frame(FrameKind kind, const std::string& body) {
  return raw(uint32_t(body.size())) + raw(uint32_t(kind)) + body;
}

}  // namespace

/// The first byte gives the kind of the rest: 'h' the first message to rank 0's watch, 'o' another
/// first message, 'f' bytes of frames.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string input(data + 1, data + size);
  if (data[0] == 'h') greet_rank_0(FrameKind::Hello, input);
  if (data[0] == 'o') greet_rank_0(FrameKind::Pulse, input);
  if (data[0] == 'f') read_frames(input);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string token(kToken);
  const std::string hello = raw(HelloHead{1, uint32_t(32)}) + token + "a-node";
  return {"h" + hello, "o" + hello,
          "f" + frame(FrameKind::Pulse, raw(Pulse{})) +
              frame(FrameKind::Failed, raw(ErrorHead{}) + "no space") +
              frame(FrameKind::Calls, raw(uint64_t{1}) + raw(CallRecord{}))};
}
