#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <thread>

#include "base/aligned_floats.h"
#include "base/error.h"
#include "base/socket.h"
#include "runtime/cache/peer_links.h"
#include "runtime/cache/peer_protocol.h"
#include "runtime/cache/peer_server.h"
#include "runtime/data/binary_writer.h"
#include "runtime/watch/frame_socket.h"
#include "runtime/watch/frames.h"
#include "runtime/watch/pulse.h"
#include "runtime/watch/watch_center.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_data.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace std::chrono_literals;

namespace {

/// Stands in an input for the token of whoever it is sent to.
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

/// All that comes until the other side hangs up.
std::string answer_on(const FileDescriptor& socket) {
  std::string answer;
  std::array<char, 4096> buffer;
  while (true) {
    pollfd waiting{socket.get(), POLLIN, 0};
    DLFLOW_CHECK(::poll(&waiting, 1, 30'000) == 1);
    const ssize_t got = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) return answer;
    answer.append(buffer.data(), size_t(got));
  }
}

constexpr size_t kImage = 64, kChunk = 4 * kImage;  // 10 chunks of 4 images

/// Two nodes: one keeps the first chunks of its part, the other asks it.
class TwoNodes {
 public:
  TwoNodes() {
    write_binary_dataset(folder_.path() / "train.dlset", test::tiny_dataset(40), kChunk);
    data_ = std::make_unique<ChunkedDataset>(folder_.path(), Split::Train);
    source_ = std::make_unique<FileSource>(data_->files());
    books_memory_ = floats(ChunkMemory::bytes_for({1, kChunk, 1}));
    books_ =
        std::make_unique<ChunkMemory>(bytes(books_memory_), ChunkMemory::Dimensions{1, kChunk, 1});
    const NodePart::Dimensions shape{0, 2, 4, 0, kChunk, 0};
    part_memory_ = floats(NodePart::bytes_for(shape));
    part_ = std::make_unique<NodePart>(*data_, *source_, *books_, bytes(part_memory_), shape, "",
                                       [](const std::string&) {});
    server_ = std::make_unique<PeerServer>(*data_, *part_, 1);
    links_ = links_to(server_->endpoint());
  }

  /// What a node is given that says `input`, which knows the token or not.
  void ask(const std::string& input) {
    const std::string said = with_token(input, server_->endpoint());
    const FileDescriptor socket = connect_here(server_->endpoint().port);
    send(socket, said);
    DLFLOW_CHECK(answer_to(said).starts_with(answer_on(socket)));
    DLFLOW_CHECK(read(*links_));  // another node is served all the same
  }

  /// What a node makes of `input`, said to it by whoever it took for a peer.
  void be_told(const std::string& input) {
    Listener listener = listen_anywhere();
    const Endpoint endpoint{
        std::string(kPeerTokenBytes, 't'), "elsewhere", listener.port, {"127.0.0.1"}};
    const std::jthread peer([&] {
      FileDescriptor socket;
      while (!(socket = accept_from(listener))) std::this_thread::sleep_for(10us);
      listener.socket.reset();
      send(socket, input);
      answer_on(socket);
    });
    read(*links_to(endpoint));
  }

 private:
  static AlignedFloats floats(size_t bytes) {
    return make_aligned_floats(bytes / sizeof(float) + 1);
  }
  static std::byte* bytes(AlignedFloats& floats) {
    return reinterpret_cast<std::byte*>(floats.get());
  }

  std::unique_ptr<PeerLinks> links_to(const Endpoint& endpoint) const {
    return std::make_unique<PeerLinks>(*data_, *books_,
                                       std::vector<PeerNode>{{endpoint, part_->size()}, {}}, 1,
                                       [](const std::string&) {});
  }

  std::string content_of(uint32_t chunk) {
    std::string content(data_->chunk(chunk).bytes, '\0');
    source_->read(data_->chunk(chunk), std::as_writable_bytes(std::span(content)));
    return content;
  }

  /// False if the chunk does not come; one that is not the chunk never does.
  bool read(PeerLinks& links) {
    std::string content(kChunk, '\0');
    if (!links.read(0, std::as_writable_bytes(std::span(content)))) return false;
    DLFLOW_CHECK(content == content_of(0));
    return true;
  }

  /// By the protocol: nothing without the token, then what is asked for until that is no chunk of
  /// this node.
  std::string answer_to(std::string_view said) {
    if (!said.starts_with(server_->endpoint().token)) return "";
    std::string answer(1, char(PeerAnswer::Welcome));
    said.remove_prefix(kPeerTokenBytes);
    uint32_t chunk = 0;
    for (; said.size() >= sizeof chunk; said.remove_prefix(sizeof chunk)) {
      std::memcpy(&chunk, said.data(), sizeof chunk);
      if (chunk >= data_->num_chunks() || !part_->keeps(chunk)) break;
      answer += char(PeerAnswer::Here) + content_of(chunk);
    }
    return answer;
  }

  test::TempDir folder_;
  std::unique_ptr<ChunkedDataset> data_;
  std::unique_ptr<FileSource> source_;
  AlignedFloats books_memory_, part_memory_;
  std::unique_ptr<ChunkMemory> books_;
  std::unique_ptr<NodePart> part_;
  std::unique_ptr<PeerServer> server_;
  std::unique_ptr<PeerLinks> links_;
};

/// Rank 0 of two lets in whoever says the token and is rank 1, and nobody else.
void greet_rank_0(FrameKind kind, const std::string& input) {
  const CallLog calls;
  WatchCenter center(2, calls, {});
  const std::string body = with_token(input, center.endpoint());
  FrameSocket stranger(connect_here(center.endpoint().port));
  stranger.send(kind, body);
  std::vector<pollfd> waiting;
  do {  // until it has joined, or only the listener is left
    waiting.clear();
    center.add_to(waiting);
    ::poll(waiting.data(), waiting.size(), 1000);
    center.turn({}, false, std::chrono::steady_clock::now());
    waiting.clear();
    center.add_to(waiting);
  } while (center.num_joined() == 0 && waiting.size() > 1);
  std::string_view rest;
  const auto head = from_body<HelloHead>(body, &rest);
  const bool is_rank = kind == FrameKind::Hello && head && head->rank == 1 &&
                       head->token_bytes == center.endpoint().token.size() &&
                       rest.starts_with(center.endpoint().token);
  DLFLOW_CHECK(center.num_joined() == (is_rank && body.size() <= 512 ? 1 : 0));
}

/// The bytes of a connection of the side channel, cut into frames and read.
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

/// The first byte says what the rest is: 'c' what comes to a node's server, 'p' what a node that is
/// asked says, 'h' the first word to rank 0's watch, 'o' another first word, 'f' bytes of frames.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static TwoNodes nodes;
  if (size == 0) return 0;
  const std::string input(data + 1, data + size);
  if (data[0] == 'c') nodes.ask(input);
  if (data[0] == 'p') nodes.be_told(input);
  if (data[0] == 'h') greet_rank_0(FrameKind::Hello, input);
  if (data[0] == 'o') greet_rank_0(FrameKind::Pulse, input);
  if (data[0] == 'f') read_frames(input);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string token(kToken);
  const std::string hello = raw(HelloHead{1, kPeerTokenBytes}) + token + "a-node";
  const std::string welcome(1, char(PeerAnswer::Welcome)), here(1, char(PeerAnswer::Here));
  return {"c" + token + raw(uint32_t{0}) + raw(uint32_t{2}) + raw(uint32_t{99}),
          "c" + std::string(kPeerTokenBytes, '0') + raw(uint32_t{0}),
          "p" + welcome + here + std::string(kChunk, 'x'),
          "p" + welcome + std::string(1, char(PeerAnswer::Leaving)),
          "h" + hello,
          "o" + hello,
          "f" + frame(FrameKind::Pulse, raw(Pulse{})) +
              frame(FrameKind::Failed, raw(ErrorHead{}) + "no space") +
              frame(FrameKind::Calls, raw(uint64_t{1}) + raw(CallRecord{}))};
}
