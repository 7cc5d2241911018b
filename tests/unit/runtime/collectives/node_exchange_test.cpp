#include "runtime/collectives/node_exchange.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/comm/thread_communicator.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/on_ranks.h"

using namespace dlflow;
using namespace dlflow::runtime;
using dlflow::test::on_ranks;

namespace {

/// Block of `size` bytes that `from` sends to `to`.
std::vector<std::byte> block(int from, int to, size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = std::byte(size_t(7 * from + 31 * to + 1) * (i + 1));
  return bytes;
}

/// The exchanges of `ranks` ranks of a node, for one thread that plays all of them.
std::vector<NodeExchange> exchanges_of(ThreadGroup& group, int ranks) {
  return on_ranks(group, ranks, [](Communicator& comm) { return NodeExchange(comm); });
}

/// Offers nothing to any of `ranks` ranks.
Offer no_offer(size_t ranks) { return {{}, std::vector<Offer::ByteRange>(ranks)}; }

Progress poll_until_stuck(Task& task) {
  for (;;) {
    const Progress progress = task.poll();
    if (progress != Progress::Some) return progress;
  }
}

}  // namespace

TEST_CASE("an exchange names the rank that it waits for", "[node_exchange]") {
  constexpr size_t kBytes = 3'000'000;  // more than the ring
  ThreadGroup group(3);
  auto node = exchanges_of(group, 3);
  const auto sent = block(1, 0, kBytes);
  std::vector<std::byte> first(kBytes), third(kBytes);
  Task of_first = node[0].exchange(no_offer(3), {{}, first, {}});
  Task of_second = node[1].exchange(Offer::to_all(sent, 3), {{}, {}, {}});
  Task of_third = node[2].exchange(no_offer(3), {{}, third, {}});

  CHECK(of_first.poll() == Progress::Some);  // rank 0 reports that it takes nothing from rank 2
  CHECK(of_first.poll() == Progress::None);
  CHECK(of_first.peer() == 1);
  CHECK(poll_until_stuck(of_second) == Progress::None);  // the ring is full
  CHECK(poll_until_stuck(of_first) == Progress::None);
  CHECK(of_first.peer() == 1);
  CHECK(of_second.poll() == Progress::None);
  CHECK(of_second.peer() == 2);  // which is missing
  CHECK(poll_until_stuck(of_third) == Progress::None);
  CHECK(of_second.poll() == Progress::Some);
  for (int i = 0; i < 100; ++i) {
    for (Task* task : {&of_first, &of_second, &of_third}) (void)task->poll();
  }
  CHECK(of_first.poll() == Progress::Done);
  CHECK(of_second.poll() == Progress::Done);
  CHECK(of_third.poll() == Progress::Done);
  CHECK(first == sent);
  CHECK(third == sent);
}

TEST_CASE("a sender makes progress while another rank is missing", "[node_exchange]") {
  const auto sent = block(0, 1, 1'000'000);
  ThreadGroup group(3);
  auto node = exchanges_of(group, 3);
  std::vector<std::byte> received(10);
  Task task = node[0].exchange(Offer::to_all(sent, 3), {{}, received, {}});
  for (int i = 0; i < 7; ++i) CHECK(task.poll() == Progress::Some);  // pieces of 128 KiB
  CHECK(task.poll() == Progress::None);  // the whole message is in the ring
}

TEST_CASE("an exchange begins once all ranks have taken the one before", "[node_exchange]") {
  ThreadGroup group(2);
  auto node = exchanges_of(group, 2);
  const auto sent = block(0, 0, 100), sent_next = block(0, 1, 100);
  std::vector<std::byte> received(100), received_next(100);
  Task offers = node[0].exchange(Offer::to_all(sent, 2), {{}, {}});
  CHECK(offers.poll() == Progress::Done);  // it is in memory, for ranks that come later
  Task offers_next = node[0].exchange(Offer::to_all(sent_next, 2), {{}, {}});
  CHECK(poll_until_stuck(offers_next) == Progress::None);
  CHECK(offers_next.peer() == 1);
  Task takes = node[1].exchange(no_offer(2), {received, {}});
  CHECK(takes.poll() == Progress::Done);
  CHECK(offers_next.poll() == Progress::Done);
  Task takes_next = node[1].exchange(no_offer(2), {received_next, {}});
  CHECK(takes_next.poll() == Progress::Done);
  CHECK(received == sent);
  CHECK(received_next == sent_next);
}

TEST_CASE("ranks that make different calls exchange nothing", "[node_exchange]") {
  ThreadGroup group(2);
  auto node = exchanges_of(group, 2);
  group.communicator(1).open_channels_in({.call = 5});
  const auto sent = block(0, 0, 100);
  std::vector<std::byte> received(100);
  Task offers = node[0].exchange(Offer::to_all(sent, 2), {{}, {}});
  Task takes = node[1].exchange(no_offer(2), {received, {}});
  CHECK(offers.poll() == Progress::Done);
  CHECK(poll_until_stuck(takes) == Progress::None);
  CHECK(takes.peer() == 0);
  CHECK(received == std::vector<std::byte>(100));
}

TEST_CASE("ranks of a node exchange blocks of any sizes", "[node_exchange]") {
  const int ranks = GENERATE(1, 2, 3, 5);
  const size_t unit = GENERATE(0, 1, 1000, 700'001);  // the last wraps around the ring
  const auto right = on_ranks(ranks, [&](Communicator& comm) {
    NodeExchange node(comm);
    const int own = comm.rank();
    // Uneven blocks, several times; some ranks send nothing to some others.
    const auto size = [&](int from, int to) { return unit * size_t((from + 2 * to) % 3); };
    int all_right = true;
    for (int round = 0; round < 3; ++round) {
      std::vector<std::byte> sent;
      std::vector<size_t> sizes;
      std::vector<std::vector<std::byte>> places(static_cast<size_t>(ranks));
      std::vector<std::span<std::byte>> received(places.size());
      for (int peer = 0; peer < ranks; ++peer) {
        const auto bytes = block(own, peer, size(own, peer));
        sent.insert(sent.end(), bytes.begin(), bytes.end());
        sizes.push_back(bytes.size());
        if (peer == own) continue;
        places[size_t(peer)].resize(size(peer, own));
        received[size_t(peer)] = places[size_t(peer)];
      }
      run(comm, node.exchange(Offer::to_each(sent, sizes, own), received));
      for (int peer = 0; peer < ranks; ++peer) {
        all_right =
            all_right && (peer == own || places[size_t(peer)] == block(peer, own, size(peer, own)));
      }
      // One rank sends to all and receives nothing.
      const int root = round % ranks;
      std::vector<std::byte> bytes = block(root, 0, unit);
      std::vector<std::span<std::byte>> from_root(places.size());
      if (own != root) {
        std::ranges::fill(bytes, std::byte(0));
        from_root[size_t(root)] = bytes;
      }
      run(comm, node.exchange(own == root ? Offer::to_all(bytes, ranks)
                                          : Offer{{}, std::vector<Offer::ByteRange>(places.size())},
                              from_root));
      all_right = all_right && bytes == block(root, 0, unit);
    }
    return all_right;
  });
  CHECK(right == std::vector<int>(size_t(ranks), true));
}

TEST_CASE("exchanges go on when their numbers wrap around", "[node_exchange]") {
  constexpr size_t kBytes = 1'500'000;  // more than the ring
  const auto right = on_ranks(3, [](Communicator& comm) -> int {
    NodeExchange node(comm);
    node.count_from((1 << 24) - 3);
    comm.barrier();
    for (int round = 0; round < 8; ++round) {
      const int root = round % 3;
      std::vector<std::byte> bytes(kBytes);
      std::vector<std::span<std::byte>> received(3);
      Offer offer{{}, std::vector<Offer::ByteRange>(3)};
      if (comm.rank() == root) {
        bytes = block(root, round, kBytes);
        offer = Offer::to_all(bytes, 3);
      } else {
        received[size_t(root)] = bytes;
      }
      run(comm, node.exchange(std::move(offer), received));
      if (bytes != block(root, round, kBytes)) return false;
    }
    return true;
  });
  CHECK(right == std::vector<int>(3, true));
}

TEST_CASE("a block whose size its receiver does not expect is an error", "[node_exchange]") {
  const auto errors = on_ranks(2, [](Communicator& comm) -> std::string {
    NodeExchange node(comm);
    std::vector<std::byte> bytes(8);
    std::vector<std::span<std::byte>> received(2);
    if (comm.rank() == 1) received[0] = std::span(bytes).first(5);
    return test::error_of([&] {
      run(comm, node.exchange(comm.rank() == 0 ? Offer::to_all(bytes, 2)
                                               : Offer{{}, std::vector<Offer::ByteRange>(2)},
                              received));
    });
  });
  CHECK(errors[0].empty());
  CHECK_THAT(errors[1], Catch::Contains("rank 1 expected 5 bytes from rank 0 and got 8"));
}
