#pragma once

#include <string>
#include <vector>

#include "tests/support/fake_slurm/world.h"

/// Times, ids and lists in SLURM's formats.
namespace dlflow::fake_slurm {

std::string date(Seconds time);            ///< 2026-11-21T08:00:00, local; 0: Unknown
std::string clock_time(Seconds duration);  ///< 00:01:30, 1-02:00:00: sacct, scontrol
std::string stop_watch(Seconds duration);  ///< 1:30, 1:00:00: squeue

/// alpha-n[1-2]
std::string host_list(const std::vector<Share>& shares);

/// A line of squeue, sacct or scontrol. The pending tasks of an array share one, `812_[3-9%2]`.
struct Record {
  const Job* job = nullptr;
  std::vector<const Task*> tasks;  ///< at least one
  bool shared = false;

  const Task& front() const { return *tasks.front(); }

  /// 3, 3-9%2, 0-20:2: as in SLURM, truncated with ... beyond 64 letters ($SLURM_BITSTR_LEN).
  std::string indices() const;
  std::string id() const;  ///< 812, 812_3, 812_[3-9%2]
};

/// The records of all jobs, including purged ones.
std::vector<Record> records(const World& world);

/// Returns `format` with each %X replaced by its text.
template <typename TextOf>
std::string fill(const std::string& format, const TextOf& text_of) {
  std::string line;
  for (size_t at = 0; at < format.size(); ++at) {
    line += format[at] == '%' ? text_of(format[++at]) : std::string(1, format[at]);
  }
  return line + "\n";
}

}  // namespace dlflow::fake_slurm
