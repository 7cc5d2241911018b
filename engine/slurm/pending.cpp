#include "engine/slurm/pending.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/units.h"
#include "engine/slurm/output.h"

namespace dlflow {
namespace {

struct Reason {
  std::string_view start;  ///< of the word that squeue prints
  std::string_view words;
  bool has_a_place = false;  ///< in the queue: when it is expected to start means something
};

// The first that fits. SLURM has some 200 of them; what is not here is printed as it is.
constexpr std::array<Reason, 17> kReasons = {{
    {kNeverSatisfied, "never starts: SLURM takes what it waits for as failed"},
    {"Dependency", ""},
    {"Resources", "waits for free nodes", true},
    {"Priority", "waits in the queue", true},
    {"BeginTime", "waits for its start time", true},
    {"JobArrayTaskLimit", "waits for other tasks of its array"},
    {"PartitionTimeLimit", "never starts: walltime above its partition's limit"},
    {"PartitionNodeLimit", "never starts: more nodes than its partition allows"},
    {"PartitionConfig", "never starts: its partition has nothing like it"},
    {"BadConstraints", "never starts: no node has what it asks for"},
    {"PartitionDown", "waits: its partition is down"},
    {"PartitionInactive", "waits: its partition takes no jobs now"},
    {"Reservation", "waits for its reservation", true},
    {"Licenses", "waits for licenses"},
    {"ReqNodeNotAvail", "waits: nodes that it needs are not available"},
    {"Nodes required for job are DOWN", "waits: nodes that it needs are down or drained"},
    {"AssocGrp", "waits for a limit of its account"},
}};

}  // namespace

std::string slurm_pending_in_words(const BatchJob& job, Time now) {
  const std::string_view reason = job.reason;
  if (reason.empty()) return "";
  if (reason.starts_with("JobHeld") || reason.find("held state") != reason.npos) {
    return "held: scontrol release " + job.id;
  }
  if (reason.starts_with("QOS")) return "waits for a limit of its QOS: " + job.reason;
  const auto known = std::find_if(kReasons.begin(), kReasons.end(), [reason](const Reason& entry) {
    return reason.starts_with(entry.start);
  });
  if (known == kReasons.end()) return "waits: " + job.reason;
  std::string text(known->words);
  if (known->has_a_place && job.start && *job.start > now) {
    text += ", starts in about " +
            format_duration(std::chrono::floor<std::chrono::seconds>(*job.start - now));
  }
  return text;
}

}  // namespace dlflow
