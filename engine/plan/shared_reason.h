#pragma once

#include <optional>
#include <string>
#include <string_view>

/// The sentences with which a job is recorded whose result another run computed: they are all that
/// the record says of it, and `dlflow explain` reads them again.
namespace dlflow {

constexpr std::string_view kReusedFrom = "reused from ", kInSharedCache = ", in the shared cache";

/// \param run  that computed the result
inline std::string shared_reason(const std::string& run) {
  return std::string(kReusedFrom) + run + std::string(kInSharedCache);
}

/// The run in such a sentence; nothing if `reason` is another.
inline std::optional<std::string> run_in_shared_reason(std::string_view reason) {
  if (!reason.starts_with(kReusedFrom) || !reason.ends_with(kInSharedCache)) return std::nullopt;
  reason.remove_prefix(kReusedFrom.size());
  reason.remove_suffix(kInSharedCache.size());
  return std::string(reason);
}

}  // namespace dlflow
