#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/handle.h"

namespace dlflow::runtime {

/// The kinds of messages on the side channel. L: any rank but 0, C: rank 0, the root of the tree,
/// P: the parent of a rank. Parents forward the messages between L and C.
enum class FrameKind : uint8_t {
  Hello,    ///< L: the token, its rank, its node; to its parent
  Welcome,  ///< P: the token was right
  Pulse,    ///< both: the rank's present activity
  Differs,  ///< L: its calls differ from those of C
  Ask,      ///< C: send your calls
  Calls,    ///< L: its newest calls
  Failed,   ///< L: the error that it threw
  Verdict,  ///< C: all ranks end; the reason
  Goodbye,  ///< L: its work is done; C: all ranks' work is done
  Joined,   ///< P: a child has connected; its node
  Lost,     ///< P: a child's connection is closed
};

struct Frame {
  static constexpr int32_t kSender = -1;

  FrameKind kind{};
  std::string body;
  int32_t rank = kSender;  ///< the rank concerned: the sender or one behind it
};

/// One end of a connection of the side channel: frames in both directions. No call blocks.
class FrameSocket {
 public:
  FrameSocket() = default;
  explicit FrameSocket(FileDescriptor socket) : socket_(std::move(socket)) {}

  /// Sends as much as the connection accepts now; later calls send the rest.
  void send(FrameKind kind, std::string_view body = {}, int32_t rank = Frame::kSender);

  /// Queues a frame for flush(): many frames wake the other end once.
  void add(FrameKind kind, std::string_view body = {}, int32_t rank = Frame::kSender);
  void flush();

  /// Returns the next complete frame that has arrived, if any. A frame longer than `max_bytes`
  /// closes the link: its sender is no rank.
  std::optional<Frame> receive(size_t max_bytes = kMaxBytes);

  /// False once either end has closed it and all frames that arrived before are received.
  bool is_open() const { return bool(socket_); }
  bool has_to_send() const { return !out_.empty(); }
  int descriptor() const { return socket_.get(); }

  /// For poll(): frames that arrive, and room for those to send.
  pollfd waiting() const {
    return {descriptor(), short(POLLIN | (has_to_send() ? POLLOUT : 0)), 0};
  }
  void close();

  static constexpr size_t kMaxBytes = 1 << 20;

 private:
  void read(size_t max_bytes);

  FileDescriptor socket_;
  bool ended_ = false;  // closed by the other side
  std::string in_, out_;
};

}  // namespace dlflow::runtime
