#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/support/fake_slurm/world.h"

/// Times, ids and lists in SLURM's spelling.
namespace dlflow::fake_slurm {

std::string date(Seconds time);            ///< 2026-11-21T08:00:00, local; 0: Unknown
std::string clock_time(Seconds duration);  ///< 00:01:30, 1-02:00:00: sacct, scontrol
std::string stop_watch(Seconds duration);  ///< 1:30, 1:00:00: squeue

/// --time and the like in minutes, seconds rounded up: 90, 1:30, 04:00:00, 1-12, UNLIMITED (0).
std::optional<int> parse_minutes(const std::string& text);

/// --begin, -S, -E: now, now-2hours, midnight, 2026-11-21, 2026-11-21T08:00[:00], 08:00[:00],
/// today.
std::optional<Seconds> parse_time(const std::string& text, Seconds now);

/// 3-9,12, as scontrol, squeue and sacct print the indices of an array: cut off with ... beyond 64
/// letters ($SLURM_BITSTR_LEN), %N behind it, and with a step (0-20:2) where there is one.
std::string index_list(const std::vector<int>& indices, int throttle);

std::string host_list(const std::vector<Share>& shares);  ///< alpha-n[1-2]
std::string host_list(const std::vector<std::string>& names);
int cpus_of(const World& world, const Job& job, const Task& task);   ///< held, or asked for
int nodes_of(const World& world, const Job& job, const Task& task);  ///< the same
std::string memory(int64_t megabytes);                               ///< 2G, 1500M
std::string version_text(int version);                               ///< 2205: slurm 22.05.8

/// The record of `812_[3-9%2]`: the tasks of an array that share one. Others are alone.
struct Record {
  const Job* job = nullptr;
  std::vector<const Task*> tasks;  ///< at least one; more, or `shared`: one line for all
  bool shared = false;

  const Task& front() const { return *tasks.front(); }
  std::string indices() const;  ///< 3, 3-9%2
  std::string id() const;       ///< 812, 812_3, 812_[3-9%2]
  JobId raw_id() const;
};

/// The records in memory, pending tasks of an array as one.
std::vector<Record> records(const World& world);

}  // namespace dlflow::fake_slurm
