#include "runtime/watch/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"

namespace dlflow::runtime {
namespace {

/// Ranks that did the same at the call in question.
struct Group {
  std::string what;
  std::vector<int> ranks;
};

/// Returns call `number`, which the rank must not have forgotten, or null if it was not made.
const CallRecord* record_of(const RankCalls& rank, uint64_t number) {
  const auto& [count, newest] = rank.calls;
  return number > count ? nullptr : &newest[number - (count - newest.size()) - 1];
}

/// Groups the ranks that made call `number` by their calls.
std::vector<Group> groups_at(const std::vector<RankCalls>& ranks, uint64_t number) {
  std::map<uint64_t, Group> by_hash;
  for (const RankCalls& rank : ranks) {
    const CallRecord* const call = record_of(rank, number);
    if (call == nullptr) continue;
    Group& group = by_hash[call->hash];
    group.what = to_string(*call);
    group.ranks.push_back(rank.rank);
  }
  std::vector<Group> groups;
  for (auto& [hash, group] : by_hash) groups.push_back(std::move(group));
  // The smallest group comes first; the lowest rank decides a tie.
  std::ranges::sort(groups, [](const Group& a, const Group& b) {
    return std::pair(a.ranks.size(), a.ranks) < std::pair(b.ranks.size(), b.ranks);
  });
  return groups;
}

}  // namespace

std::string name_of(const std::vector<int>& ranks, const std::vector<std::string>& nodes) {
  if (ranks.size() == 1) {
    return "rank " + std::to_string(ranks[0]) + " (node " + nodes.at(size_t(ranks[0])) + ")";
  }
  std::vector<std::string> parts;
  for (size_t first = 0, end = 0; first < ranks.size(); first = end) {
    for (end = first + 1; end < ranks.size() && ranks[end] == ranks[end - 1] + 1;) ++end;
    parts.push_back(std::to_string(ranks[first]));
    if (end - first > 1) parts.back() += "-" + std::to_string(ranks[end - 1]);
  }
  return "ranks " + join(parts, ", ");
}

std::string describe_difference(const std::vector<RankCalls>& ranks,
                                const std::vector<std::string>& nodes) {
  uint64_t first = 1, last = 0;  // calls that no rank has forgotten
  for (const auto& [rank, calls] : ranks) {
    first = std::max(first, calls.count - calls.newest.size() + 1);
    last = std::max(last, calls.count);
  }
  for (uint64_t number = first; number <= last; ++number) {
    const std::vector<Group> groups = groups_at(ranks, number);
    if (groups.size() < 2) continue;
    if (number == first && first > 1) break;  // earlier calls may differ, too
    std::vector<std::string> parts;
    for (const Group& group : groups) {
      parts.push_back(name_of(group.ranks, nodes) + " " + group.what);
    }
    return "call " + std::to_string(number) +
           " is not the same on all ranks: " + join(parts, "; ") +
           "; start all ranks with the same program, model and options";
  }
  return "";
}

std::string describe_loss(const std::string& ranks) {
  return ranks + " died: killed, crashed, or its node went down";
}

std::string describe_silence(const std::string& ranks, std::chrono::milliseconds time) {
  return ranks + ": silent for " + seconds_of(time) +
         "; its process is stopped, or its node cannot be reached";
}

std::string seconds_of(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", double(time.count()) / 1000);
}

}  // namespace dlflow::runtime
