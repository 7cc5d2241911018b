#pragma once

#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/fault.h"
#include "tests/support/catch.h"
#include "tests/support/dice.h"
#include "tests/support/fake_backend.h"

namespace dlflow::test {

/// Calls of dlflow by users in a simulation. A call may be killed between any two effects or within
/// a write, or meet a full disk. Keeps the history of what happened.
class SimulatedShell {
 public:
  explicit SimulatedShell(Dice& dice) : dice_(dice) {}
  SimulatedShell(const SimulatedShell&) = delete;
  SimulatedShell& operator=(const SimulatedShell&) = delete;

  /// Simulates one call of dlflow. Returns whether it finished.
  bool call(const std::string& verb, const std::function<void()>& work) {
    roll();
    std::string line = verb;
    bool ended = false;
    on_crash_point([this](std::string_view point) { pass(point); });
    on_write([this](const std::filesystem::path& path, size_t bytes) { return fit(path, bytes); });
    try {
      work();
      ended = true;
    } catch (const Killed&) {
      line += ", killed" + (place_.empty() ? "" : " at " + place_);
      ++num_kills;
    } catch (const Error& error) {
      line += ": " + std::string(error.what());
    }
    on_crash_point({});
    on_write({});
    note(line);
    return ended;
  }

  /// Work of other processes during a call: it meets no faults.
  void by_others(const std::function<void()>& work) {
    const bool before = std::exchange(others_, true);
    work();
    others_ = before;
  }

  void note(std::string line) { history_.push_back(std::move(line)); }

  /// From now on there are no kills and no full disks.
  void calm() { is_calm_ = true; }

  std::string history() const {
    std::string text;
    for (const std::string& line : history_) text += "  " + line + "\n";
    return text;
  }

  int num_kills = 0;
  int num_torn_writes = 0;  ///< number of kills within a write
  int num_full_disks = 0;

 private:
  static constexpr int kNever = -1;

  /// Draws the fault of the next call.
  void roll() {
    points_left_ = writes_left_ = kNever;
    disk_is_full_ = false;
    place_.clear();
    if (is_calm_) return;
    if (dice_.once_in(4)) points_left_ = dice_.below(12);
    if (dice_.once_in(5)) writes_left_ = dice_.below(10);
    killed_in_write_ = dice_.once_in(2);
  }

  void pass(std::string_view point) {
    if (others_) return;
    if (point == "torn write") {
      if (!killed_in_write_) return;
      place_ = "a write to " + written_;
      ++num_torn_writes;
      throw Killed();
    }
    if (points_left_ < 0 || points_left_-- > 0) return;
    place_ = point;
    throw Killed();
  }

  size_t fit(const std::filesystem::path& path, size_t bytes) {
    if (others_ || writes_left_ < 0) return bytes;
    if (writes_left_ > 0) {
      --writes_left_;
      return bytes;
    }
    if (!disk_is_full_ && !killed_in_write_) ++num_full_disks;
    disk_is_full_ = true;
    written_ = path.filename();
    return size_t(dice_.below(bytes));
  }

  Dice& dice_;
  std::vector<std::string> history_;
  std::string place_;    // where the last call was killed
  std::string written_;  // the last truncated file
  int points_left_ = kNever;
  int writes_left_ = kNever;
  bool killed_in_write_ = false;  // otherwise the disk is full until the call ends
  bool disk_is_full_ = false;
  bool others_ = false;
  bool is_calm_ = false;
};

/// Runs a `Simulation` with `count` seeds, or those in DLFLOW_SIMULATION_SEEDS. Its run() returns
/// an error text, or nothing; num_jobs() is the number of jobs begun or submitted.
template <typename Simulation>
void simulate(uint32_t count) {
  if (std::filesystem::exists("/dev/shm")) ::setenv("TMPDIR", "/dev/shm", 0);  // small files
  const Seeds seeds = seeds_from("DLFLOW_SIMULATION_SEEDS", {1, count});
  int kills = 0, torn = 0, full = 0, jobs = 0;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    Simulation simulation{uint32_t(seed)};
    const std::string problem = simulation.run();
    INFO("seed " << seed << "\n" << simulation.shell().history());
    CHECK(problem == "");
    kills += simulation.shell().num_kills;
    torn += simulation.shell().num_torn_writes;
    full += simulation.shell().num_full_disks;
    jobs += simulation.num_jobs();
  }
  // A simulation without faults or work would prove nothing.
  CHECK(kills >= int(seeds.count / 2));
  CHECK(torn >= int(seeds.count / 10));
  CHECK(full >= int(seeds.count / 10));
  CHECK(jobs >= int(3 * seeds.count));
}

}  // namespace dlflow::test
