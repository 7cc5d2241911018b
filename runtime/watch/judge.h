#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/lifeline.h"
#include "runtime/watch/pulse.h"
#include "runtime/watch/report.h"

namespace dlflow::runtime {

/// The tree in which ranks watch each other: few connections per rank, few steps to rank 0.
constexpr int kChildrenOfRank = 32;

/// `rank` must not be 0, which has no parent.
constexpr int parent_of(int rank) { return (rank - 1) / kChildrenOfRank; }

/// The longest time without activity of a rank that others wait for.
struct WatchLimits {
  std::chrono::milliseconds warning = std::chrono::seconds(10);
  std::chrono::milliseconds stall = std::chrono::seconds(60);
};

/// Decides for rank 0, from the frames it receives, whether the ranks can continue. Uses no
/// threads, sockets or clocks.
class Judge {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `own`: the calls of rank 0; must outlive this.
  Judge(int num_ranks, const CallLog& own, WatchLimits limits);

  /// A rank is not judged before it joins.
  void joined(int rank, const std::string& node, Time now);
  void heard(int rank, const Pulse& pulse, Time now);
  void differs(int rank);  ///< its calls differ from those of rank 0
  void sent(RankCalls calls);
  void failed(int rank, Errc code, const std::string& message, Time now);
  void done(int rank);            ///< it only waits for the others to finish
  void lost(int rank, Time now);  ///< its connection is closed, and those behind it

  bool knows(int rank) const { return rank >= 0 && size_t(rank) < members_.size(); }
  bool all_done() const;

  struct Opinion {
    bool asks = false;                  ///< every rank should send its calls
    std::string warning;                ///< for users, returned once
    std::optional<WatchError> verdict;  ///< all ranks must end
  };
  Opinion look(Time now);

 private:
  enum class State { Unknown, Present, Failed, Lost, Left };
  struct Member {
    State state = State::Unknown;
    Pulse pulse;
    Time heard, moved;  ///< last pulse; last pulse with progress
    bool differs = false, done = false;
    std::optional<RankCalls> calls;
  };
  /// The activity of the ranks during a period.
  struct Scene {
    std::vector<int> silent;   ///< no pulse
    std::vector<int> idle;     ///< neither wait nor do anything else
    std::vector<int> busy;     ///< compute, or have an activity
    std::vector<int> starved;  ///< await data in an activity, and none arrives
    std::vector<int> waiting;  ///< for a peer
    bool in_vain = false;      ///< a waiting or starved rank received nothing
    bool flows = false;        ///< a waiting rank received something
  };

  bool is_behind_silence(int rank, std::chrono::milliseconds time, Time now) const;
  Scene scene(std::chrono::milliseconds time, Time now) const;
  std::string name(const std::vector<int>& ranks) const { return name_of(ranks, nodes_); }
  std::string place(const std::vector<int>& waiting) const;
  std::string describe_starvation(const std::vector<int>& starved,
                                  std::chrono::milliseconds time) const;
  std::string activity_of(const std::vector<int>& ranks) const;
  bool any_differs() const;
  std::optional<WatchError> compared(Time now) const;
  std::optional<WatchError> ended(Time now) const;
  std::optional<WatchError> stalled(Time now) const;
  std::string warning(Time now) const;

  const CallLog& own_;
  WatchLimits limits_;
  std::vector<Member> members_;
  std::vector<std::string> nodes_;
  std::optional<Time> differs_since_, asked_, first_failure_, first_loss_;
  WatchError failure_;  // from the first rank that failed
  bool warned_ = false;
};

}  // namespace dlflow::runtime
