#include "runtime/cache/peer_links.h"

#include <utility>

#include "runtime/cache/node_part.h"
#include "runtime/cache/peer_protocol.h"
#include "runtime/cache/proven_source.h"

namespace dlflow::runtime {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kTimeToConnect = 2s;  // to each address
constexpr auto kTimeToGreet = 10s;   // somebody who has taken the connection

std::string seconds_of(std::chrono::milliseconds time) {
  return std::to_string(std::chrono::ceil<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

PeerLinks::PeerLinks(const ChunkedDataset& data, const ChunkMemory& books,
                     std::vector<PeerNode> nodes, size_t own,
                     std::function<void(const std::string&)> warn, const PeerLimits& limits)
    : data_(data), books_(books), own_(own), warn_(std::move(warn)), limits_(limits) {
  for (PeerNode& node : nodes) peers_.emplace_back().node = std::move(node);
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (i != own_ && peers_[i].node.kept > 0) connect(peers_[i]);
  }
}

bool PeerLinks::read(uint32_t chunk, std::span<std::byte> to) {
  const ChunkKeeper keeper = keeper_of(chunk, peers_.size());
  Peer& peer = peers_[keeper.node];
  if (keeper.node == own_ || keeper.index >= peer.node.kept) return false;
  const std::lock_guard lock(peer.mutex);
  if (!peer.socket && Clock::now() >= peer.ask_from) connect(peer);
  if (!peer.socket || !ask(peer, chunk, to)) return false;
  if (is_whole(data_.chunk(chunk), to)) {
    books_.count_peer(to.size());
    return true;
  }
  give_up(peer, "what it sent is damaged", Time::max());
  return false;
}

void PeerLinks::connect(Peer& peer) {
  const Endpoint& endpoint = peer.node.endpoint;
  for (const std::string& address : addresses_to_try(endpoint)) {
    FileDescriptor socket = connect_to(address, endpoint.port, kTimeToConnect);
    if (!socket || !greet(socket, endpoint)) continue;
    peer.socket = std::move(socket);
    return;
  }
  give_up(peer, "it cannot be reached", Clock::now() + limits_.pause);
}

bool PeerLinks::greet(const FileDescriptor& socket, const Endpoint& endpoint) {
  const auto deadline = Clock::now() + kTimeToGreet;
  std::byte answer{};
  return send_all(socket, std::as_bytes(std::span(endpoint.token)), deadline) == Transferred::All &&
         receive_all(socket, {&answer, 1}, deadline) == Transferred::All &&
         answer == std::byte(PeerAnswer::Welcome);
}

bool PeerLinks::ask(Peer& peer, uint32_t chunk, std::span<std::byte> to) {
  const auto deadline = Clock::now() + limits_.answer;
  std::byte answer{};
  // One that has left does not take a request, but had said so.
  send_all(peer.socket, std::as_bytes(std::span(&chunk, 1)), deadline);
  if (const auto how = receive_all(peer.socket, {&answer, 1}, deadline); how != Transferred::All) {
    give_up(peer, how);
    return false;
  }
  if (answer == std::byte(PeerAnswer::Leaving)) {
    peer.socket.reset();
    peer.ask_from = Time::max();
  }
  if (answer != std::byte(PeerAnswer::Here)) return false;
  const auto how = receive_all(peer.socket, to, deadline);
  if (how != Transferred::All) give_up(peer, how);
  return how == Transferred::All;
}

void PeerLinks::give_up(Peer& peer, Transferred how) {
  give_up(peer,
          how == Transferred::Late ? "no answer for " + seconds_of(limits_.answer)
                                   : "its connection has ended",
          Clock::now() + limits_.pause);
}

void PeerLinks::give_up(Peer& peer, const std::string& reason, Time until) {
  peer.socket.reset();
  peer.ask_from = until;
  if (!books_.count_lost_peer()) return;
  warn_("what node " + peer.node.endpoint.node +
        " keeps of the data is read from where it lies: " + reason);
}

}  // namespace dlflow::runtime
