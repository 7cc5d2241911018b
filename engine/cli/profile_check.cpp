#include "engine/cli/profile_check.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "base/remove_tree.h"
#include "base/units.h"
#include "engine/batch/limits.h"
#include "engine/batch/probe.h"
#include "engine/cli/findings_printer.h"
#include "engine/cli/release_image.h"
#include "engine/run/batch_systems.h"
#include "engine/run/interrupts.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using Kind = Finding::Kind;

std::string unused_token() {
  std::random_device random;
  char text[16];
  std::snprintf(text, sizeof text, "%08x", random());
  return text;
}

/// A probe whose folder exists as long as this object.
class Prepared {
 public:
  Prepared(const Profile& profile, int ranks, std::vector<ProbedEnvironment> environments,
           std::string self_query = "") {
    const std::string token = unused_token();
    probe = {fs::absolute(profile.runs) / (".dlflow-probe-" + token),
             token,
             ranks,
             std::move(environments),
             std::move(self_query),
             SystemClock().now(),
             release_runtime(profile)};
    prepare_probe(probe, profile);
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  ~Prepared() {
    std::error_code ignored;
    remove_tree(probe.folder, ignored);
  }

  Probe probe;
};

using Environments = std::vector<ProbedEnvironment>;

/// The distinct environments that steps of `plan` in class `place` load.
Environments environments_of(const Plan* plan, std::optional<uint32_t> place) {
  Environments environments;
  if (plan == nullptr) return environments;
  std::set<uint32_t> steps;
  for (const PlannedJob& job : plan->jobs) {
    if (job.place == place) steps.insert(job.step);
  }
  for (const uint32_t number : steps) {
    const Step& step = plan->workflow.steps[number];
    if (step.tools.empty()) continue;
    const auto same = std::ranges::find(environments, step.tools, &ProbedEnvironment::tools);
    if (same == environments.end()) {
      environments.push_back({step.name, step.tools, plan->base});
    } else {
      same->steps += ", " + step.name;
    }
  }
  return environments;
}

/// Reads `file`, written by another host. NFS may show it some seconds late.
std::optional<std::string> read_when_there(const fs::path& file, seconds patience) {
  for (int tries = 0; tries <= patience.count(); ++tries) {
    std::error_code ignored;
    const fs::directory_iterator look(file.parent_path(), ignored);  // refreshes NFS's view
    if (auto text = read_file_if_exists(file)) return text;
    std::this_thread::sleep_for(seconds(1));
  }
  return std::nullopt;
}

class ClusterCheck {
 public:
  /// \param node_class  "gpu" if there are several; otherwise empty
  ClusterCheck(Session& session, const Profile& profile, const std::string& node_class,
               Environments environments, Json& findings)
      : printer_(session, findings, node_class),
        environments_(std::move(environments)),
        batch_(make_batch_system(profile.scheduler)),
        given_(profile),
        cluster_(batch_->cluster()) {
    profile_ = with_cluster_limits(profile, cluster_);
    since_ = SystemClock().now();
  }

  /// Returns false after Ctrl-C.
  bool run(seconds patience) {
    try_job(patience);
    return !interrupted_;
  }

 private:
  void try_job(seconds patience) {
    printer_.head(given_.name, std::string(batch_->name()) + " " + cluster_.version + ", cluster " +
                                   cluster_.cluster);
    check_cluster();
    const Probe wanted{"", "", 2};
    const PartitionInfo* const partition = cluster_.partition(partition_of(profile_));
    const int nodes = num_nodes(probe_batch(wanted, profile_).resources, profile_);
    const bool too_small = partition != nullptr && nodes > partition->nodes;
    const Prepared prepared(profile_, too_small ? 1 : 2, environments_, batch_->self_query());
    const auto id = submit(prepared.probe);
    if (!id) return;
    const BatchJob job = wait(*id, patience);
    if (interrupted_ || !is_over(job.state)) return;
    const bool may_be_late = job.state == BatchState::Completed;
    const auto text = read_when_there(prepared.probe.result(), seconds(may_be_late ? 10 : 0));
    printer_.add_all(read_probe(text, prepared.probe, given_, job, SystemClock().now()));
  }

  void check_cluster() const {
    const std::string& name = partition_of(profile_);
    const PartitionInfo* const partition = cluster_.partition(name);
    if (partition == nullptr) {
      const bool is_list = name.find(',') != name.npos;
      printer_.add(
          Kind::Unknown,
          name.empty() ? "there is no default partition"
          : is_list    ? "'" + name + "' is a list of partitions; none of them is checked"
                       : "there is no partition '" + name + "'",
          "Set " + partition_key(profile_) + "; `dlflow profile detect` lists what there is.");
    } else {
      printer_.add(partition->is_up ? Kind::Works : Kind::Fails,
                   "partition " + partition->name + " has " + std::to_string(partition->nodes) +
                       " nodes with " + std::to_string(partition->node.cores) + " cores, " +
                       format_size(partition->node.memory_bytes) +
                       (partition->is_up ? "" : ", and takes no jobs"),
                   partition->is_up ? "" : "Ask the site, or choose another partition.");
    }
    if (cluster_.accounting) {
      printer_.add(Kind::Works, "accounting shows how old jobs ended");
    } else {
      printer_.progress("no accounting: only dlflow's own records show how old jobs ended");
    }
  }

  std::optional<std::string> submit(const Probe& probe) {
    const SubmitAnswer answer = batch_->render(probe_batch(probe, profile_), profile_).submit();
    if (const auto* accepted = std::get_if<Accepted>(&answer)) return accepted->id;
    if (is_interrupted()) {  // the submitter got Ctrl-C, too, perhaps after submitting
      for (const BatchJob& job : batch_->queue()) {
        if (job.name == probe_batch(probe, profile_).name) return job.id;
      }
      return std::nullopt;
    }
    if (const auto* refused = std::get_if<Refused>(&answer)) {
      printer_.add(Kind::Fails, std::string(batch_->name()) + " refuses a job: " + refused->message,
                   "Often the cause is the account, the partition or the QOS in the profile.");
      return std::nullopt;
    }
    throw Error(Errc::Unavailable, std::get<Unclear>(answer).message + "; if job dlflow-probe-" +
                                       probe.token + " was accepted, it ends by itself");
  }

  /// Waits and returns the finished job, or cancels it after `patience` and returns its last state.
  BatchJob wait(const std::string& id, seconds patience) {
    BatchJob job;
    job.id = id;
    std::string shown;
    const auto end = std::chrono::steady_clock::now() + patience;
    auto pause = std::chrono::milliseconds(250);
    while (std::chrono::steady_clock::now() < end) {
      const auto now = in_queue(id);
      if (now) job = *now;
      if (!now || is_over(job.state)) return ended(job);
      const std::string line = "job " + id + " is " + std::string(words(job.state)) +
                               (job.reason.empty() ? "" : ": " + job.reason);
      if (line != shown) printer_.progress(line);
      shown = line;
      pollfd signals{interrupts_.descriptor(), POLLIN, 0};
      ::poll(&signals, 1, int(pause.count()));
      if (is_interrupted()) return cancelled(job);
      pause = std::min(pause * 2, kLongestPause);
    }
    cancel(id);
    printer_.add(Kind::Unknown,
                 "job " + id + " was cancelled: still " + std::string(words(job.state)) +
                     " after " + format_duration(patience) +
                     (job.reason.empty() ? "" : ", " + job.reason),
                 "Try again with a longer --timeout, or with another partition or QOS.");
    return job;
  }

  /// Whether Ctrl-C was ever pressed.
  bool is_interrupted() {
    interrupted_ = interrupted_ || interrupts_.take() > 0;
    return interrupted_;
  }

  void cancel(const std::string& id) {
    const JobIdentity ours{.id = id, .name_begin = "dlflow-probe-", .name_end = ""};
    batch_->cancel({&ours, 1});
  }

  BatchJob cancelled(BatchJob job) {
    cancel(job.id);
    printer_.interrupted("job " + job.id + " was cancelled");
    return job;
  }

  std::optional<BatchJob> in_queue(const std::string& id) {
    for (BatchJob& job : batch_->queue()) {
      if (job.id == id) return std::move(job);
    }
    return std::nullopt;
  }

  /// Returns a finished job, with its exit status if accounting has it.
  BatchJob ended(BatchJob job) {
    const std::vector<std::string> ids = {job.id};
    for (BatchJob& other : batch_->accounting(ids, since_).jobs) {
      if (other.id == job.id && is_over(other.state)) return std::move(other);
    }
    if (!is_over(job.state)) job.state = BatchState::Completed;  // its result decides
    return job;
  }

  static constexpr auto kLongestPause = std::chrono::milliseconds(4000);

  Interrupts interrupts_;     // first: Ctrl-C at any time must cancel the job
  bool interrupted_ = false;  // Ctrl-C was pressed
  FindingsPrinter printer_;
  Environments environments_;
  const std::unique_ptr<BatchSystem> batch_;
  const Profile& given_;
  ClusterLimits cluster_;
  Profile profile_;
  Time since_{};
};

/// Checks each class with a job of its own, and a class of the login node directly.
void check_classes(Session& session, const Profile& profile, seconds patience, const Plan* plan,
                   Json& findings) {
  for (uint32_t i = 0; i < profile.classes.size(); ++i) {
    const NodeClass& node_class = profile.classes[i];
    const Profile placed = with_class(profile, node_class);
    Environments environments = environments_of(plan, i);
    if (node_class.local) {
      check_local(session, placed, 1, node_class.name, std::move(environments), findings);
    } else if (!ClusterCheck(session, placed, node_class.name, std::move(environments), findings)
                    .run(patience)) {
      return;
    }
  }
}

/// Whether the container runtime must work. False only if the plan shows no step with an image.
bool wants_containers(const Plan* plan) {
  return plan == nullptr || std::ranges::any_of(plan->workflow.steps, [](const Step& step) {
           return !step.image.empty();
         });
}

}  // namespace

void check_local(Session& session, const Profile& profile, int ranks, const std::string& node_class,
                 std::vector<ProbedEnvironment> environments, Json& findings) {
  const FindingsPrinter printer(session, findings, node_class);
  const Prepared prepared(profile, ranks, std::move(environments));
  Command command;
  command.argv = probe_batch(prepared.probe, profile).command;
  command.environment = current_environment();
  printer.head(profile.name, node_class.empty() ? "this machine" : "the login node");
  const OutputOptions options{.time_limit = seconds(60), .collect_errors = true};
  const Output output = run(std::move(command), options);
  if (output.timed_out) {
    printer.add(Kind::Fails, "the probe did not end within 60 s",
                "Try the launcher of the profile by hand; -v shows the command.");
    return;
  }
  printer.add_all(read_probe(read_file_if_exists(prepared.probe.result()), prepared.probe, profile,
                             BatchJob(), SystemClock().now()));
}

void check_profile(Session& session, const Profile& given, seconds patience, const Plan* plan) {
  Profile profile = given;
  if (const std::string runtime = release_runtime(given);
      !runtime.empty() && !loads_programs(given)) {
    profile.container.runtime = runtime;
  } else if (!wants_containers(plan)) {
    profile.container.runtime = "none";
  }
  Json findings = Json::array();
  if (!is_batch_system(profile.scheduler)) {
    check_local(session, profile, 2, "", environments_of(plan, {}), findings);
  } else if (profile.classes.empty()) {
    ClusterCheck(session, profile, "", environments_of(plan, {}), findings).run(patience);
  } else {
    check_classes(session, profile, patience, plan, findings);
  }
  if (session.json) print_json({{"profile", profile.name}, {"findings", std::move(findings)}});
}

}  // namespace dlflow
