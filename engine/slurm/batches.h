#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/plan.h"

/// Which jobs of a plan travel together, one sbatch each, and what each sbatch waits for. Pure.
namespace dlflow {

/// Where a job stands when a chain is made.
struct Standing {
  enum class Kind {
    Done,      ///< nothing has to wait for it
    ToSubmit,  ///< now
    Waiting,   ///< SLURM has it already, as `id`
    LeftOut,   ///< neither it nor what waits for it can run
  };
  Kind kind = Kind::Done;
  std::string id = {};  ///< also of a job that is left out, if SLURM has it
};

/// What a batch waits for.
struct Link {
  enum class Kind {
    All,       ///< all of an earlier batch
    SameTask,  ///< task i for task i of it
    OneTask,   ///< for `task` of it
    Id,        ///< for a job that SLURM had before
    Ended,     ///< for the end of all of an earlier batch, whatever it is
    EndedId,   ///< the same of a job or array that SLURM had before
  };
  Kind kind = Kind::All;
  uint32_t batch = 0;  ///< its place in the list
  uint32_t task = 0;
  std::string id = {};
  auto operator<=>(const Link&) const = default;
};

/// One sbatch to come: a plain job, or a job array of elements of one step.
struct PlannedBatch {
  uint32_t step = 0;
  bool is_array = false;
  std::vector<uint32_t> jobs = {};   ///< numbers in the plan, ascending
  std::vector<uint32_t> tasks = {};  ///< of the array: the element's number modulo the array size
  std::vector<Link> links = {};      ///< each once
  int max_parallel = 0;              ///< of its tasks that run at a time; 0: any number
};

/// What slurmctld refuses to read (_test_strlen in its job_mgr.c), in bytes.
inline constexpr size_t kMaxArrayText = size_t{4} * 1024;
inline constexpr size_t kMaxDependencyText = size_t{128} * 1024;

/// Parents before children. The tasks of an array have the same resources and wait for the same; a
/// step has one array where it can be, more if it is larger than `max_array_size`, if its elements
/// differ in that, or if so many are missing in between that the list of its tasks is too long.
/// `standing` is by job.
///
/// A step's `max_parallel` holds over all its arrays, those that SLURM has already among them: they
/// share its places, and where there are more arrays than places, or some from before, one begins
/// when another has ended.
std::vector<PlannedBatch> plan_batches(const Plan& plan, const std::vector<Standing>& standing,
                                       uint32_t max_array_size);

/// "afterok:811:812_3,aftercorr:813,afterany:810"; `ids` are those of the batches so far. Empty for
/// no links. Throws Error{InvalidInput} if that is longer than SLURM reads.
std::string dependency(const std::vector<Link>& links, const std::vector<std::string>& ids);

}  // namespace dlflow
