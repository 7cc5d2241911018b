#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/decide/jobs.h"
#include "engine/plan/plan.h"

/// The jobs of a chain that a batch system gets. It holds each until its parents have ended, so
/// they are submitted as a whole.
namespace dlflow {

/// A job's place in a chain that is being submitted.
struct Standing {
  enum class Kind {
    Done,      ///< no job has to wait for it
    ToSubmit,  ///< now
    Waiting,   ///< the batch system has it already, as `id`
    LeftOut,   ///< neither it nor its dependents can run
  };
  Kind kind = Kind::Done;
  std::string id = {};  ///< also of a job that is left out, if the batch system has it
  bool operator==(const Standing&) const = default;
};

/// Returns the standing of each job. \param ids  in the batch system, by job; empty: none. \param
/// is_kept  whether the batch system has a job that is not Queued on record
std::vector<Standing> standings(const Plan& plan, const Jobs& states,
                                const std::vector<std::string>& ids,
                                const std::function<bool(uint32_t job)>& is_kept);

/// Whether the job is an element of a list that may change before it could run, since the job that
/// leaves the list has yet to end.
bool waits_for_list(const Plan& plan, const Jobs& states, uint32_t job);

}  // namespace dlflow
