#include "runtime/watch/judge.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"

namespace dlflow::runtime {
namespace {

using namespace std::chrono_literals;

/// The message should also name ranks that reach the call a little later.
constexpr auto kTimeToCome = 150ms;

/// Time to wait for the calls of ranks that may be dead; the second, while the other calls show no
/// difference.
constexpr auto kTimeToAnswer = 500ms;
constexpr auto kMostTimeToAnswer = 5s;

/// A rank may have thrown because another made a different call, which pulses will show.
constexpr auto kTimeToDiffer = 300ms;

/// The longest delay of a pulse that several ranks forward.
constexpr auto kTimeToPassOn = 1s;

/// Ranks that die together are named together.
constexpr auto kTimeToDie = 50ms;

/// Returns call number `count`, or nothing if it is forgotten.
std::string text_of_call(const CallLog& log, uint64_t count) {
  const CallLog::Recent recent = log.recent();
  const uint64_t before = recent.count - recent.newest.size();
  if (count <= before || count > recent.count) return "";
  return " (" + to_string(recent.newest[count - before - 1]) + ")";
}

}  // namespace

Judge::Judge(int num_ranks, const CallLog& own, WatchLimits limits)
    : own_(own),
      limits_(limits),
      members_(size_t(num_ranks)),
      nodes_(size_t(num_ranks)),
      failure_(Fault::Failed, Errc::Unavailable, "") {}

void Judge::joined(int rank, const std::string& node, Time now) {
  Member& member = members_.at(size_t(rank));
  member.state = State::Present;
  member.heard = member.moved = now;
  nodes_[size_t(rank)] = node;
}

void Judge::heard(int rank, const Pulse& pulse, Time now) {
  Member& member = members_.at(size_t(rank));
  if (pulse.progress != member.pulse.progress) member.moved = now;
  member.pulse = pulse;
  member.heard = now;
}

void Judge::differs(int rank) { members_.at(size_t(rank)).differs = true; }

void Judge::sent(RankCalls calls) { members_.at(size_t(calls.rank)).calls = std::move(calls); }

void Judge::failed(int rank, Errc code, const std::string& message, Time now) {
  members_.at(size_t(rank)).state = State::Failed;
  if (first_failure_) return;
  first_failure_ = now;
  const bool says_who = message.starts_with("rank ");
  failure_ = {Fault::Failed, code, says_who ? message : name({rank}) + ": " + message};
}

void Judge::lost(int rank, Time now) {
  Member& member = members_.at(size_t(rank));
  member.state = member.done ? State::Left : State::Lost;
  if (!member.done && !first_loss_) first_loss_ = now;
  // Ranks behind one that left are not heard any more. Ranks behind one that died end soon.
  for (size_t behind = size_t(rank) + 1; member.done && behind < members_.size(); ++behind) {
    const auto parent = size_t(parent_of(int(behind)));
    if (parent > 0 && members_[parent].state == State::Left) members_[behind].state = State::Left;
  }
}

void Judge::done(int rank) { members_.at(size_t(rank)).done = true; }

bool Judge::all_done() const {
  return std::ranges::all_of(members_, [](const Member& member) { return member.done; });
}

Judge::Opinion Judge::look(Time now) {
  Opinion opinion;
  if (!differs_since_ && any_differs()) differs_since_ = now;
  if (differs_since_ && !asked_ && now - *differs_since_ >= kTimeToCome) {
    asked_ = now;
    opinion.asks = true;
  }
  if (asked_) opinion.verdict = compared(now);
  if (!differs_since_) opinion.verdict = ended(now);
  if (!opinion.verdict && !differs_since_) opinion.verdict = stalled(now);
  if (!opinion.verdict && !warned_) {
    opinion.warning = warning(now);
    warned_ = !opinion.warning.empty();
  }
  return opinion;
}

bool Judge::any_differs() const {
  return std::ranges::any_of(members_, [&](const Member& member) {
    if (member.state != State::Present && member.state != State::Failed) return false;
    const auto hash = own_.hash_after(member.pulse.calls);
    return member.differs || (hash && *hash != member.pulse.hash);
  });
}

/// Returns the verdict once every rank that can send its calls has done so, or time is over.
std::optional<WatchError> Judge::compared(Time now) const {
  std::vector<RankCalls> known = {{0, own_.recent()}};
  bool complete = true;
  for (size_t rank = 1; rank < members_.size(); ++rank) {
    const Member& member = members_[rank];
    if (member.calls) known.push_back(*member.calls);
    complete &= member.calls || member.state == State::Lost || member.state == State::Left;
  }
  if (!complete && now - *asked_ < kTimeToAnswer) return std::nullopt;
  const std::string difference = describe_difference(known, nodes_);
  if (!complete && difference.empty() && now - *asked_ < kMostTimeToAnswer) return std::nullopt;
  return WatchError(Fault::Differs, Errc::InvalidInput,
                    difference.empty() ? "the ranks made different collective calls, but too many "
                                         "calls ago to show which; start all "
                                         "ranks with the same program, model and options"
                                       : difference);
}

std::optional<WatchError> Judge::ended(Time now) const {
  if (first_loss_ && now - *first_loss_ >= kTimeToDie) {
    std::vector<int> ranks;
    for (size_t rank = 0; rank < members_.size(); ++rank) {
      if (members_.at(rank).state == State::Lost) ranks.push_back(int(rank));
    }
    return WatchError(Fault::Lost, Errc::Unavailable, describe_loss(name(ranks)));
  }
  if (first_failure_ && now - *first_failure_ >= kTimeToDiffer) return failure_;
  return std::nullopt;
}

/// A rank whose parent is silent cannot be heard, and falls silent a little earlier than the
/// parent.
bool Judge::is_behind_silence(int rank, std::chrono::milliseconds time, Time now) const {
  for (int parent = parent_of(rank); parent > 0; parent = parent_of(parent)) {
    const auto silent = now - members_[size_t(parent)].heard;
    if (silent >= std::min<Time::duration>(time / 2, kTimeToPassOn)) return true;
  }
  return false;
}

Judge::Scene Judge::scene(std::chrono::milliseconds time, Time now) const {
  Scene scene;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    const auto& [state, pulse, heard, moved, differs, done, calls] = members_[rank];
    if (state != State::Present) continue;
    const bool moves = now - moved < time;
    if (now - heard >= time) {
      if (!is_behind_silence(int(rank), time, now)) scene.silent.push_back(int(rank));
    } else if (pulse.waits) {
      scene.waiting.push_back(int(rank));
      (moves ? scene.flows : scene.in_vain) = true;
    } else if (moves || (pulse.activity[0] != '\0' && !pulse.awaits)) {
      scene.busy.push_back(int(rank));
    } else {
      (pulse.awaits ? scene.starved : scene.idle).push_back(int(rank));
      scene.in_vain |= pulse.awaits;
    }
  }
  return scene;
}

/// Returns "; ranks 0-1 wait in call 812 (barrier)", with all such calls.
std::string Judge::place(const std::vector<int>& waiting) const {
  std::map<uint64_t, std::vector<int>> by_call;
  for (const int rank : waiting) by_call[members_[size_t(rank)].pulse.calls].push_back(rank);
  std::vector<std::string> parts;
  for (const auto& [count, ranks] : by_call) {
    parts.push_back(name(ranks) + (ranks.size() > 1 ? " wait" : " waits") + " in call " +
                    std::to_string(count) + text_of_call(own_, count));
  }
  return parts.empty() ? "" : "; " + join(parts, ", ");
}

/// Returns "rank 3 (node b2): waits for data; nothing has come for 60 s".
std::string Judge::describe_starvation(const std::vector<int>& starved,
                                       std::chrono::milliseconds time) const {
  return name(starved) + ": " + members_[size_t(starved[0])].pulse.activity.data() +
         "; nothing has come for " + seconds_of(time);
}

std::optional<WatchError> Judge::stalled(Time now) const {
  const auto limit = limits_.stall;
  const Scene all = scene(limit, now);
  if (!all.in_vain) return std::nullopt;
  std::string what;
  if (!all.silent.empty()) {
    what = describe_silence(name(all.silent), limit);
  } else if (!all.idle.empty()) {
    what = name(all.idle) + ": no progress for " + seconds_of(limit) + ", though it answers";
  } else if (all.busy.empty() && !all.flows) {
    what = all.starved.empty() ? "nothing has come to any rank for " + seconds_of(limit)
                               : describe_starvation(all.starved, limit);
  } else {
    return std::nullopt;
  }
  return WatchError(Fault::Stalled, Errc::Unavailable, what + place(all.waiting));
}

std::string Judge::warning(Time now) const {
  const auto limit = limits_.warning;
  const Scene all = scene(limit, now);
  if (!all.in_vain) return "";
  std::vector<std::string> parts;
  if (!all.silent.empty()) parts.push_back(describe_silence(name(all.silent), limit));
  if (!all.idle.empty()) parts.push_back(name(all.idle) + ": no progress for " + seconds_of(limit));
  if (!all.starved.empty()) parts.push_back(describe_starvation(all.starved, limit));
  if (!all.busy.empty()) parts.push_back(name(all.busy) + activity_of(all.busy));
  if (parts.empty() && all.flows) return "";
  if (parts.empty()) parts.push_back("nothing has come to any rank for " + seconds_of(limit));
  return join(parts, "; ") + place(all.waiting);
}

/// Returns the activity of a single busy rank; several "compute".
std::string Judge::activity_of(const std::vector<int>& ranks) const {
  const char* const activity = members_[size_t(ranks[0])].pulse.activity.data();
  if (ranks.size() > 1) return " compute";
  return *activity == '\0' ? " computes" : " " + std::string(activity);
}

}  // namespace dlflow::runtime
