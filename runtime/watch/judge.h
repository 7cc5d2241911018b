#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/lifeline.h"
#include "runtime/watch/pulse.h"
#include "runtime/watch/report.h"

namespace dlflow::runtime {

/// The longest time that a rank which others wait for may do nothing.
struct WatchLimits {
  std::chrono::milliseconds warning = std::chrono::seconds(10);
  std::chrono::milliseconds stall = std::chrono::seconds(60);
};

/// Decides for rank 0 whether the ranks can go on, from what it hears of them: no threads, sockets
/// or clocks in here.
class Judge {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `own` are the calls of rank 0; must outlive this.
  Judge(int num_ranks, const CallLog& own, WatchLimits limits);

  /// A rank is not judged before it joins.
  void joined(int rank, const std::string& node, Time now);
  void heard(int rank, const Pulse& pulse, Time now);
  void differs(int rank);  ///< it says that its calls are not those of rank 0
  void sent(RankCalls calls);
  void failed(int rank, Errc code, const std::string& message, Time now);
  void done(int rank);            ///< with its work: it only waits for the others to be
  void lost(int rank, Time now);  ///< its connection is closed, and with it those behind it

  bool knows(int rank) const { return rank >= 0 && size_t(rank) < members_.size(); }
  bool all_done() const;

  struct Opinion {
    bool asks = false;                  ///< every rank should send its calls
    std::string warning;                ///< for people, once
    std::optional<WatchError> verdict;  ///< all ranks must end
  };
  Opinion look(Time now);

 private:
  enum class State { Unknown, Present, Failed, Lost, Left };
  struct Member {
    State state = State::Unknown;
    Pulse pulse;
    Time heard, moved;  ///< the last pulse; the last one with progress
    bool differs = false, done = false;
    std::optional<RankCalls> calls;
  };
  /// The activity of the ranks during some time.
  struct Scene {
    std::vector<int> silent;   ///< no pulse
    std::vector<int> idle;     ///< neither wait nor do anything
    std::vector<int> busy;     ///< compute, or have an activity
    std::vector<int> starved;  ///< wait for what an activity awaits, and it does not come
    std::vector<int> waiting;  ///< for a peer
    bool in_vain = false;      ///< nothing has come to one of those, or of the starved
    bool flows = false;        ///< something has come to one of those
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
  WatchError failure_;  // of the first that failed
  bool warned_ = false;
};

}  // namespace dlflow::runtime
