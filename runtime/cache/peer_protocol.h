#pragma once

#include <cstddef>
#include <cstdint>

/// The protocol between a PeerServer and the PeerLinks of other nodes. All ranks run the same
/// program on the same kind of machine.
///
///   link:   the token of the server's endpoint; the server answers Welcome, or hangs up
///   link:   the number of a chunk, 4 bytes; the server answers Here and the chunk, or Failed
///   server: Leaving, at any time: it has ended, as all ranks do now
namespace dlflow::runtime {

enum class PeerAnswer : uint8_t { Welcome = 1, Here, Failed, Leaving };

constexpr size_t kPeerTokenBytes = 32;

}  // namespace dlflow::runtime
