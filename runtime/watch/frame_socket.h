#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/handle.h"

namespace dlflow::runtime {

/// The kinds of messages on the side channel. L: any rank but 0, C: rank 0, the root of the tree,
/// P: the parent of a rank. Parents pass on what L and C say to each other.
enum class FrameKind : uint8_t {
  Hello,    ///< L: the token, its rank, its node; to its parent
  Welcome,  ///< P: the token was right
  Pulse,    ///< both: what the rank does now
  Differs,  ///< L: its calls are not those of C
  Ask,      ///< C: send your calls
  Calls,    ///< L: its newest calls
  Failed,   ///< L: what it threw
  Verdict,  ///< C: all end, and why
  Goodbye,  ///< L: its work is done; C: that of all is
  Joined,   ///< P: a child has connected; its node
  Lost,     ///< P: a child's connection is closed
};

struct Frame {
  static constexpr int32_t kSender = -1;

  FrameKind kind{};
  std::string body;
  int32_t rank = kSender;  ///< whom it is about: the rank that sent it, or one behind that
};

/// One end of a connection of the side channel: frames in both directions, and no call waits.
class FrameSocket {
 public:
  FrameSocket() = default;
  explicit FrameSocket(FileDescriptor socket) : socket_(std::move(socket)) {}

  /// Sends what the connection takes now, and the rest with later calls.
  void send(FrameKind kind, std::string_view body = {}, int32_t rank = Frame::kSender);

  /// For flush() to send: many frames wake the other end once.
  void add(FrameKind kind, std::string_view body = {}, int32_t rank = Frame::kSender);
  void flush();

  /// The next frame that has arrived as a whole, if any. A frame longer than `max_bytes` closes the
  /// link: whoever sends it is none of us.
  std::optional<Frame> receive(size_t max_bytes = kMaxBytes);

  /// Neither end has closed it, or frames that had arrived before are still to be received.
  bool is_open() const { return bool(socket_); }
  bool has_to_send() const { return !out_.empty(); }
  int descriptor() const { return socket_.get(); }
  void close();

  static constexpr size_t kMaxBytes = 1 << 20;

 private:
  void read(size_t max_bytes);

  FileDescriptor socket_;
  bool ended_ = false;  // by the other side
  std::string in_, out_;
};

}  // namespace dlflow::runtime
