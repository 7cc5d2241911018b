#include "runtime/watch/frame_socket.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace dlflow::runtime {
namespace {

/// Precedes each body, as plain memory: all ranks run the same program on the same kind of machine.
struct Header {
  uint32_t bytes = 0;
  int32_t rank = 0;
  FrameKind kind{};
};

bool is_for_now(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

void FrameSocket::send(FrameKind kind, std::string_view body, int32_t rank) {
  add(kind, body, rank);
  flush();
}

void FrameSocket::add(FrameKind kind, std::string_view body, int32_t rank) {
  if (!is_open()) return;
  Header header;  // its padding is sent, too
  std::array<char, sizeof header> bytes{};
  header.bytes = uint32_t(body.size());
  header.rank = rank;
  header.kind = kind;
  std::memcpy(bytes.data(), &header, sizeof header);
  out_.append(bytes.data(), bytes.size());
  out_.append(body);
}

void FrameSocket::flush() {
  while (!out_.empty()) {  // empty if the link is closed
    const ssize_t sent = ::send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      // receive() detects a closed connection, after the frames that arrived before.
      if (!is_for_now(errno)) out_.clear();
      return;
    }
    out_.erase(0, size_t(sent));
  }
}

void FrameSocket::read(size_t max_bytes) {
  std::array<char, 16384> buffer;
  while (is_open() && !ended_ && in_.size() <= max_bytes + sizeof(Header)) {
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && is_for_now(errno)) return;
    ended_ = got <= 0;
    if (got > 0) in_.append(buffer.data(), size_t(got));
  }
}

std::optional<Frame> FrameSocket::receive(size_t max_bytes) {
  read(max_bytes);
  Header header;
  if (in_.size() >= sizeof header) {
    std::memcpy(&header, in_.data(), sizeof header);
    if (header.bytes > max_bytes) {
      close();
      return std::nullopt;
    }
    if (in_.size() >= sizeof header + header.bytes) {
      Frame frame{header.kind, in_.substr(sizeof header, header.bytes), header.rank};
      in_.erase(0, sizeof header + header.bytes);
      return frame;
    }
  }
  if (ended_) close();
  return std::nullopt;
}

void FrameSocket::close() {
  socket_.reset();
  in_.clear();
  out_.clear();
}

}  // namespace dlflow::runtime
