#include "engine/slurm/pending.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/units.h"
#include "engine/slurm/output.h"

namespace dlflow {
namespace {

/// A reason printed by squeue, and a sentence for it, in which "{id}" stands for the job's id.
struct Reason {
  enum class Kind {
    Waits,
    HasPlace,  ///< in the queue, with a meaningful expected start
    Held,      ///< until it is released
    Nodes,     ///< caused by a node out of service
    HeldNode,  ///< both
  };
  std::string_view start;  ///< first part of the reason
  std::string_view words;
  Kind kind = Kind::Waits;

  bool is_held() const { return kind == Kind::Held || kind == Kind::HeldNode; }
  bool is_about_nodes() const { return kind == Kind::Nodes || kind == Kind::HeldNode; }
};

constexpr Reason kHeld = {"", "held: scontrol release {id}", Reason::Kind::Held};

// The first match counts. SLURM has some 200 reasons; others are printed unchanged.
constexpr auto kReasons = std::to_array<Reason>({
    {kNeverSatisfied, "never starts: SLURM considers a job that it waits for failed"},
    {"Dependency", ""},
    {"Resources", "waits for free nodes", Reason::Kind::HasPlace},
    {"Priority", "waits in the queue", Reason::Kind::HasPlace},
    {"BeginTime", "waits for its start time", Reason::Kind::HasPlace},
    {"JobArrayTaskLimit", "waits for other tasks of its array"},
    // Reasons that need action.
    {"JobHeldAdmin", "held by an administrator, who must release it: scontrol release {id}",
     Reason::Kind::Held},
    {"JobHeldUser", kHeld.words, Reason::Kind::Held},
    {"JobHoldMaxRequeue", "held: requeued more often than the site allows; scontrol release {id}",
     Reason::Kind::Held},
    {"launch failed requeued held",
     "held: a node could not start it, usually because its prolog failed; scontrol release {id}",
     Reason::Kind::HeldNode},
    {"user env retrieval failed requeued held",
     "held: a node could not read its user's environment; scontrol release {id}",
     Reason::Kind::HeldNode},
    {"job requeued in held state", kHeld.words, Reason::Kind::Held},
    {"JobHeld", kHeld.words, Reason::Kind::Held},
    {"QOSNotAllowed",
     "never starts: its account or partition may not use its QOS; "
     "scontrol update jobid={id} qos=NAME"},
    {"InvalidQOS", "never starts: its QOS is gone; scontrol update jobid={id} qos=NAME"},
    {"InvalidAccount",
     "never starts: its account is gone; scontrol update jobid={id} account=NAME"},
    {"AccountNotAllowed",
     "never starts: its partition takes no jobs of its account; "
     "scontrol update jobid={id} partition=NAME"},
    {"PartitionTimeLimit",
     "never starts: walltime above its partition's limit; scontrol update jobid={id} "
     "TimeLimit=TIME"},
    {"PartitionNodeLimit", "never starts: more nodes than its partition allows"},
    {"PartitionConfig", "never starts: its partition has no such resources"},
    {"BadConstraints", "never starts: no node has what it asks for"},
    {"PartitionDown", "waits: its partition is down"},
    {"PartitionInactive", "waits: its partition takes no jobs now"},
    {"ReqNodeNotAvail", "waits: nodes that it needs are not available", Reason::Kind::Nodes},
    {"Nodes required for job are DOWN", "waits: nodes that it needs are down or drained",
     Reason::Kind::Nodes},
    {"NodeDown", "waits: a node that it needs is down", Reason::Kind::Nodes},
    {"Prolog", "waits for the prolog of its nodes"},
    {"Cleaning", "waits until the nodes of its last start are clean"},
    // Limits and other reasons that pass without action.
    {"Reservation", "waits for its reservation", Reason::Kind::HasPlace},
    {"Licenses", "waits for licenses"},
    {"AssocGrp", "waits for a limit of its account"},
});

/// Returns null if the reason is not in the table.
const Reason* find_reason(std::string_view text) {
  const auto known = std::ranges::find_if(
      kReasons, [text](const Reason& entry) { return text.starts_with(entry.start); });
  return known == kReasons.end() ? nullptr : &*known;
}

/// The entry for the job; null if its reason is printed unchanged.
const Reason* reason_of(const BatchJob& job) {
  const Reason* const known = find_reason(job.reason);
  const bool is_held = job.state == BatchState::Held;  // even for other reasons
  return is_held && (known == nullptr || !known->is_held()) ? &kHeld : known;
}

std::string with_id(std::string_view words, const std::string& id) {
  constexpr std::string_view kId = "{id}";
  const size_t at = words.find(kId);
  if (at == words.npos) return std::string(words);
  return std::string(words.substr(0, at)) + id + std::string(words.substr(at + kId.size()));
}

}  // namespace

bool is_held_in_slurm(const BatchJob& job) {
  if (!has_not_begun(job.state)) return false;
  const Reason* const reason = reason_of(job);
  return reason != nullptr && reason->is_held();
}

std::string slurm_pending_in_words(const BatchJob& job, Time now,
                                   const std::function<std::string()>& drained_nodes) {
  const Reason* const reason = reason_of(job);
  if (reason == nullptr && job.reason.empty()) return "";
  if (reason == nullptr) {
    const bool is_limit = job.reason.starts_with("QOS");
    return (is_limit ? "waits for a limit of its QOS: " : "waits: ") + job.reason;
  }
  std::string text = with_id(reason->words, job.id);
  // For jobs without a limit, SLURM assumes a year.
  constexpr std::chrono::hours kNoForecast(24 * 300);
  const bool is_known = job.start && *job.start > now && *job.start - now < kNoForecast;
  if (reason->kind == Reason::Kind::HasPlace && is_known) {
    text += ", starts in about " +
            format_duration(std::chrono::floor<std::chrono::seconds>(*job.start - now));
  }
  if (!reason->is_about_nodes()) return text;
  const std::string nodes = drained_nodes();
  return nodes.empty() ? text : text + "; out of service: " + nodes;
}

}  // namespace dlflow
