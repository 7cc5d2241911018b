#pragma once

#include <optional>
#include <string>
#include <string_view>

/// The sentences that record that another run computed a job's result. The record has nothing else
/// about it, so `dlflow explain` parses them.
namespace dlflow {

constexpr std::string_view kReusedFrom = "reused from ", kInSharedCache = ", in the shared cache";

/// \param run  the run that computed the result
inline std::string shared_reason(const std::string& run) {
  return std::string(kReusedFrom) + run + std::string(kInSharedCache);
}

/// The run in such a sentence; nothing if `reason` is something else.
inline std::optional<std::string> run_in_shared_reason(std::string_view reason) {
  if (!reason.starts_with(kReusedFrom) || !reason.ends_with(kInSharedCache)) return std::nullopt;
  reason.remove_prefix(kReusedFrom.size());
  reason.remove_suffix(kInSharedCache.size());
  return std::string(reason);
}

}  // namespace dlflow
