#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "runtime/comm/lifeline.h"
#include "runtime/watch/report.h"

/// The bodies of frames (frame_socket.h): plain memory, then text or calls to the end.
namespace dlflow::runtime {

template <typename T>
requires std::is_trivially_copyable_v<T> std::string to_body(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// Returns nothing if `body` is too short. `rest`, unless null, becomes the text after the value.
template <typename T>
requires std::is_trivially_copyable_v<T> std::optional<T> from_body(
    std::string_view body, std::string_view* rest = nullptr) {
  if (body.size() < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, body.data(), sizeof value);
  if (rest) *rest = body.substr(sizeof value);
  return value;
}

/// The head of a Hello; token and node follow.
struct HelloHead {
  int32_t rank = 0;
  uint32_t token_bytes = 0;
};

/// The head of a Failed or a Verdict, before its text.
struct ErrorHead {
  Fault fault{};
  Errc code{};
};

std::string to_body(const WatchError& error);
std::optional<WatchError> error_from(std::string_view body);

std::string to_body(const CallLog::Recent& calls);
CallLog::Recent calls_from(std::string_view body);

}  // namespace dlflow::runtime
