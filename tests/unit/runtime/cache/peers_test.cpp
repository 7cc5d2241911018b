#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <thread>

#include "base/aligned_floats.h"
#include "base/error.h"
#include "base/file.h"
#include "runtime/cache/node_part.h"
#include "runtime/cache/peer_links.h"
#include "runtime/cache/peer_protocol.h"
#include "runtime/cache/peer_server.h"
#include "tests/support/catch.h"
#include "tests/support/damage.h"
#include "tests/unit/runtime/cache/stored_chunks.h"

/// What nodes keep for each other, and what happens if one of them is not as it should be. Nodes
/// are threads; what they say goes over TCP.
using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;
using namespace std::chrono_literals;

namespace {

/// Books, and the part of one node.
struct PartNode {
  CountingSource source;
  AlignedFloats memory, books_memory;
  ChunkMemory books;
  std::vector<std::string> warnings;
  std::unique_ptr<ScratchRoom> room;
  std::unique_ptr<NodePart> part;

  PartNode(const Stored& stored, const ChunkedDataset& data, NodePart::Dimensions shape)
      : source(data),
        memory(floats(NodePart::bytes_for(shape))),
        books_memory(floats(ChunkMemory::bytes_for({1, kChunk, 1}))),
        books(bytes(books_memory), {1, kChunk, 1}) {
    if (shape.scratch_slots > 0) {
      room = std::make_unique<ScratchRoom>(NodeDisk{stored.disk.path(), 0}, shape.scratch_slots,
                                           kChunk);
    }
    part = std::make_unique<NodePart>(data, source, books, bytes(memory), shape,
                                      room ? room->file() : "", warn());
  }

  std::function<void(const std::string&)> warn() {
    return [this](const std::string& text) { warnings.push_back(text); };
  }

 private:
  static AlignedFloats floats(size_t bytes) {
    return make_aligned_floats(bytes / sizeof(float) + 1);
  }
  static std::byte* bytes(AlignedFloats& floats) {
    return reinterpret_cast<std::byte*>(floats.get());
  }
};

using Content = std::vector<std::byte>;

/// Of a chunk, as the file has it.
Content chunk_of(const Stored& stored, const Chunk& chunk) {
  const std::string file = read_file(stored.file());
  const auto* const begin = reinterpret_cast<const std::byte*>(file.data()) + chunk.offset;
  return {begin, begin + chunk.bytes};
}

/// A node 0 that welcomes whoever comes and then does as it is told.
class FakePeer {
 public:
  explicit FakePeer(std::function<void(FileDescriptor&)> after_welcome)
      : listener_(listen_anywhere()),
        endpoint_(endpoint_of(listener_)),
        thread_([this, after_welcome = std::move(after_welcome)](const std::stop_token& stop) {
          FileDescriptor socket;
          while (!(socket = accept_from(listener_)) && !stop.stop_requested()) {
            pollfd waiting{listener_.socket.get(), POLLIN, 0};
            ::poll(&waiting, 1, 10);
          }
          std::array<std::byte, kPeerTokenBytes> token;
          receive_all(socket, token, far());
          say(socket, PeerAnswer::Welcome);
          after_welcome(socket);
          while (!stop.stop_requested()) std::this_thread::sleep_for(1ms);
        }) {}

  std::vector<PeerNode> nodes() const { return {{endpoint_, 100}, {}}; }

  static Deadline far() { return std::chrono::steady_clock::now() + 60s; }
  static void say(const FileDescriptor& socket, PeerAnswer answer) {
    const auto byte = std::byte(answer);
    send_all(socket, {&byte, 1}, far());
  }

 private:
  Listener listener_;
  Endpoint endpoint_;
  std::jthread thread_;
};

constexpr uint32_t kTheirs = 4;  // of node 0 of 2

}  // namespace

TEST_CASE("chunks go round the nodes, whose parts are equal to one", "[cache]") {
  std::vector<size_t> counts(3);
  for (uint32_t chunk = 0; chunk < 50; ++chunk) {
    const ChunkKeeper keeper = keeper_of(chunk, 3);
    CHECK(keeper.index == counts[keeper.node]++);
  }
  for (size_t node = 0; node < 3; ++node) CHECK(chunks_of_node(50, node, 3) == counts[node]);
}

TEST_CASE("what a node keeps is read once, whoever asks for it at the same time",
          "[cache][threads]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  const size_t on_disk = GENERATE(0, 10, 25);
  PartNode node(stored, data, {1, 2, 25 - on_disk, on_disk, kChunk, 0});
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        Content room(kChunk);
        for (uint32_t chunk = 1; chunk < 50; chunk += 2) {
          const auto got = node.part->get(chunk, room, {});
          const Content expected = chunk_of(stored, data.chunk(chunk));
          if (!std::equal(got.begin(), got.end(), expected.begin(), expected.end())) ++wrong;
        }
      });
    }
  }
  CHECK(wrong == 0);
  CHECK(node.source.reads() == 25);
  CHECK(node.books.traffic().source_bytes == 25 * kChunk);
  CHECK_FALSE(node.part->keeps(0));
  CHECK(node.part->keeps_in_memory(1) == (on_disk < 25));
  CHECK_FALSE(node.part->keeps_in_memory(49) == (on_disk > 0));
}

TEST_CASE("what a node keeps on a disk that damages it comes from the source", "[cache]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  PartNode node(stored, data, {0, 2, 0, 25, kChunk, 0});
  Content room(kChunk);
  for (int i = 0; i < 2; ++i) {
    node.part->get(6, room, {});
    CHECK(room == chunk_of(stored, data.chunk(6)));
    test::damage(node.room->file(), 3 * kChunk);
  }
  CHECK(node.source.reads() == 2);
  CHECK(node.warnings.size() == 1);
}

TEST_CASE("a chunk comes from the node that keeps it, and from the source once", "[cache]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  PartNode keeps(stored, data, {0, 2, 12, 8, kChunk, 0}),
      asks(stored, data, {1, 2, 0, 0, kChunk, 0});
  PeerServer server(data, *keeps.part);
  PeerLinks links(data, asks.books, {{server.endpoint(), keeps.part->size()}, {}}, 1, asks.warn());
  bool right = true;
  for (int round = 0; round < 2; ++round) {
    for (uint32_t chunk = 0; chunk < 50; ++chunk) {
      Content to(data.chunk(chunk).bytes);
      const bool is_kept = chunk % 2 == 0 && chunk / 2 < 20;
      right &= links.read(chunk, to) == is_kept;
      right &= !is_kept || to == chunk_of(stored, data.chunk(chunk));
    }
  }
  CHECK(right);
  CHECK(keeps.source.reads() == 20);
  CHECK(asks.books.traffic().peer_bytes == 40 * kChunk);
  CHECK(asks.warnings.empty());
}

TEST_CASE("many ranks ask one node at the same time", "[cache][threads]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  PartNode keeps(stored, data, {0, 2, 20, 5, kChunk, 0});
  PeerServer server(data, *keeps.part);
  std::atomic<int> right = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 12; ++i) {
      threads.emplace_back([&] {
        PartNode asks(stored, data, {1, 2, 0, 0, kChunk, 0});
        PeerLinks links(data, asks.books, {{server.endpoint(), 25}, {}}, 1, asks.warn());
        Content to(kChunk);
        for (uint32_t chunk = 0; chunk < 50; chunk += 2) {
          if (links.read(chunk, to) && to == chunk_of(stored, data.chunk(chunk))) ++right;
        }
      });
    }
  }
  CHECK(right == 12 * 25);
  CHECK(keeps.source.reads() == 25);
}

TEST_CASE("strangers without a word are hung up on, and nodes are still served",
          "[cache][threads][attack]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  PartNode keeps(stored, data, {0, 2, 20, 5, kChunk, 0}),
      asks(stored, data, {1, 2, 0, 0, kChunk, 0});
  PeerServer server(data, *keeps.part);
  std::vector<FileDescriptor> strangers;
  for (size_t i = 0; i < 2 * kMaxStrangers; ++i) {
    strangers.push_back(connect_to("127.0.0.1", server.endpoint().port, 2000ms));
    REQUIRE(strangers.back());
    if (i % 2 == 0) send_all(strangers.back(), std::array{std::byte{'x'}}, FakePeer::far());
  }
  PeerLinks links(data, asks.books, {{server.endpoint(), keeps.part->size()}, {}}, 1, asks.warn());
  Content to(kChunk);
  CHECK(links.read(0, to));
  CHECK(to == chunk_of(stored, data.chunk(0)));
  for (const FileDescriptor& stranger : strangers) {
    std::byte answer{};
    CHECK(receive_all(stranger, {&answer, 1}, FakePeer::far()) == Transferred::Closed);
  }
}

TEST_CASE("a peer that sends something else is not asked again, and told once", "[cache]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  std::atomic<int> asked = 0;
  const FakePeer lies([&](FileDescriptor& socket) {
    Content anything(kChunk, std::byte(1));
    for (uint32_t chunk = 0; receive_all(socket, std::as_writable_bytes(std::span(&chunk, 1)),
                                         FakePeer::far()) == Transferred::All;) {
      ++asked;
      FakePeer::say(socket, PeerAnswer::Here);
      send_all(socket, anything, FakePeer::far());
    }
  });
  PartNode asks(stored, data, {1, 2, 0, 0, kChunk, 0});
  const PeerLimits limits{60s, 0s};
  PeerLinks links(data, asks.books, lies.nodes(), 1, asks.warn(), limits);
  Content to(kChunk);
  CHECK_FALSE(links.read(kTheirs, to));
  CHECK_FALSE(links.read(kTheirs, to));
  CHECK(asked == 1);
  REQUIRE(asks.warnings.size() == 1);
  CHECK_THAT(asks.warnings[0], Catch::StartsWith("what node ") &&
                                   Catch::EndsWith(" keeps of the data is read from where it "
                                                   "lies: what it sent is damaged"));
}

TEST_CASE("a peer that is silent or gone is left alone for a while, and told once", "[cache]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  const bool is_gone = GENERATE(false, true);
  const FakePeer peer([&](FileDescriptor& socket) {
    if (is_gone) socket.reset();
  });
  PartNode asks(stored, data, {1, 2, 0, 0, kChunk, 0});
  PeerLinks links(data, asks.books, peer.nodes(), 1, asks.warn(), {is_gone ? 60000ms : 20ms, 1h});
  Content to(kChunk);
  CHECK_FALSE(links.read(kTheirs, to));
  CHECK_FALSE(links.read(kTheirs, to));
  REQUIRE(asks.warnings.size() == 1);
  CHECK_THAT(asks.warnings[0], Catch::EndsWith(is_gone ? "lies: its connection has ended"
                                                       : "lies: no answer for 1 s"));
}

TEST_CASE("a node that cannot be reached is done without, and tried again later", "[cache]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  PartNode keeps(stored, data, {0, 2, 25, 0, kChunk, 0}),
      asks(stored, data, {1, 2, 0, 0, kChunk, 0});
  PeerServer server(data, *keeps.part);
  Endpoint wrong = server.endpoint();
  wrong.token = std::string(kPeerTokenBytes, '0');  // the server hangs up on who says this
  PeerLinks links(data, asks.books, {{wrong, 25}, {}}, 1, asks.warn(), {60s, 0s});
  Content to(kChunk);
  CHECK_FALSE(links.read(kTheirs, to));
  CHECK(asks.warnings.size() == 1);
  CHECK_THAT(asks.warnings[0], Catch::EndsWith("lies: it cannot be reached"));
  CHECK(keeps.source.reads() == 0);
}

TEST_CASE("a node that leaves in order is not told", "[cache]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  PartNode keeps(stored, data, {0, 2, 25, 0, kChunk, 0}),
      asks(stored, data, {1, 2, 0, 0, kChunk, 0});
  auto server = std::make_unique<PeerServer>(data, *keeps.part);
  PeerLinks links(data, asks.books, {{server->endpoint(), 25}, {}}, 1, asks.warn());
  Content to(kChunk);
  CHECK(links.read(kTheirs, to));
  server.reset();
  CHECK_FALSE(links.read(kTheirs, to));
  CHECK_FALSE(links.read(kTheirs, to));
  CHECK(asks.warnings.empty());
}

TEST_CASE("a node that cannot read its part says so, and serves the rest", "[cache]") {
  const Stored stored;
  test::damage(stored.file(), stored.offset_of(4 * kTheirs));
  const ChunkedDataset data = stored.open();
  PartNode keeps(stored, data, {0, 2, 25, 0, kChunk, 0}),
      asks(stored, data, {1, 2, 0, 0, kChunk, 0});
  PeerServer server(data, *keeps.part);
  PeerLinks links(data, asks.books, {{server.endpoint(), 25}, {}}, 1, asks.warn());
  Content to(kChunk);
  CHECK_FALSE(links.read(kTheirs, to));
  CHECK(links.read(kTheirs + 2, to));
  CHECK(asks.warnings.empty());
  CHECK(keeps.warnings.size() == 1);
}
