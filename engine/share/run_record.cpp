#include "engine/share/run_record.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/json_fields.h"
#include "base/local_files.h"
#include "base/parse_json.h"
#include "base/sha256.h"
#include "base/text.h"
#include "engine/model/step_kinds.h"
#include "engine/plan/data_identity.h"
#include "engine/plan/plan_json.h"
#include "engine/plan/published.h"
#include "engine/plan/run_directory.h"
#include "engine/share/private_words.h"
#include "engine/supervisor/content_hash.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// The folder of a job's files in the bundle: run/steps/STEP[/ELEMENT].
std::string folder_of(const JobRow& job) { return job_directory("run", job.job).string(); }

/// The nodes in order of appearance.
std::vector<std::string> nodes_of(const ReportedRun& run) {
  std::vector<std::string> nodes;
  for (const JobRow& job : run.status.jobs) {
    for (const JobEvent& event : run.events_of(job.job)) {
      if (event.node.empty()) continue;
      if (std::find(nodes.begin(), nodes.end(), event.node) == nodes.end()) {
        nodes.push_back(event.node);
      }
    }
  }
  return nodes;
}

/// The numbers in each line of metrics.jsonl, without messages, which programs wrote.
std::string numbers_of(const std::string& metrics) {
  std::string lines;
  for (const std::string& line : split(metrics, '\n')) {
    const Json json = parse_json(line);
    if (!json.is_object()) continue;
    Json numbers = Json::object();
    for (const auto& [key, value] : json.items()) {
      if (value.is_number()) numbers[key] = value;
    }
    if (!numbers.empty()) lines += numbers.dump() + "\n";
  }
  return lines;
}

/// Whether a job had effects that no bundle contains: a command without outputs, or `stage-out`.
bool acts_elsewhere(const Step& step, const Json& outputs) {
  const StepKind* kind = find_step_kind(step.uses);
  return kind == nullptr ? act_elsewhere(outputs) : kind->reuse == StepKind::Reuse::Never;
}

/// The hash of everything in `place`, which is called `tree` below its job's folder, except the
/// entry `without`: names, kinds, contents, and execute permissions. A link within the tree counts
/// as a link, any other as its target. Throws Error.
std::string hash_of_tree(const fs::path& place, const std::string& tree,
                         const std::string& without) {
  const fs::path root = fs::canonical(place);
  Sha256 hash;
  for (const PublishedEntry& entry : list_published(root, tree)) {
    if (entry.name == without) continue;
    const fs::path path = root.string() + entry.name.substr(tree.size());
    Json line = {entry.name};
    if (fs::is_symlink(path) && is_below(target_of(path), root)) {
      line.push_back(
          target_of(path).lexically_relative(fs::canonical(path.parent_path())).string());
    } else if (!fs::is_directory(path)) {
      line.push_back(is_executable(path));
      line.push_back(sha256_file(path));
    }
    hash.update(line.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n");
  }
  return hash.hex();
}

class Recorder {
 public:
  Recorder(Bundle& bundle, const ReportedRun& run, FileHashes& hashes,
           const std::set<std::string>& steps)
      : bundle_(bundle),
        run_(run),
        hashes_(hashes),
        steps_(steps),
        nodes_(nodes_of(run)),
        private_(run.plan, nodes_) {}

  std::vector<std::string> record() {
    const RunStatus& status = run_.status;
    bundle_.manifest.run = status.run;
    Json jobs = Json::array();
    for (const JobRow& job : status.jobs) {
      jobs.push_back(job_record(job));
      if (!satisfies_dependents(job.state) || !travels(job)) continue;
      const Json result = add_result(job, jobs.back());
      if (result.is_null()) continue;
      jobs.back()["result"] = result;
      ++bundle_.num_results;
    }
    bundle_.files.push_back({"run/run.json", {}, run_record(std::move(jobs)).dump(1) + "\n"});
    return std::move(left_out_);
  }

 private:
  const Step& step_of(const JobRow& job) const {
    for (const Step& step : run_.plan.workflow.steps) {
      if (step.name == job.step) return step;
    }
    throw Error(Errc::Corrupt, "'" + job.job + "' belongs to no step of the run");
  }

  /// Whether the outputs of a job go into the bundle.
  bool travels(const JobRow& job) const {
    return steps_.empty() ? !holds_copies(job) : steps_.contains(job.step);
  }

  /// Whether the job's outputs are copies of files that lie elsewhere.
  bool holds_copies(const JobRow& job) const { return copies_sources(step_of(job).uses); }

  /// Packs the outputs of a job and returns their description; null if a part of them is left out.
  Json add_result(const JobRow& job, const Json& record) {
    lacks_.clear();
    without_.clear();
    links_ = Json::object();
    folders_ = Json::array();
    add_files(job);
    const Step& step = step_of(job);
    const Json& outputs = record.at("outputs");
    if (acts_elsewhere(step, outputs)) return {};
    if (record.at("fingerprint").get<std::string>().empty()) return {};
    for (const auto& [name, output] : outputs.items()) {
      const Json& value = output.at("value");
      const bool is_elsewhere = value.is_null() || !places_in(value).empty();
      if (is_elsewhere && !output.contains("path")) {
        lacks_ = "its output '" + name + "' is, or names, something that only this machine has";
      }
    }
    for (const auto& [name, output] : outputs.items()) {
      const bool holds_it = is_below(job.directory + "/" + without_,
                                     job.directory / fs::path(output.value("path", "none")));
      if (!without_.empty() && holds_it) lacks_ = "a file of it is left out";
    }
    if (lacks_.empty()) lacks_ = find_change(job.directory, hashes_).value_or("");
    if (!lacks_.empty()) {
      left_out_.push_back("the result of " + job.job +
                          " is not in the bundle as it was published: " + lacks_);
      return {};
    }
    return {{"trees", hashes_of_trees(job, without_)}, {"links", links_}, {"folders", folders_}};
  }

  /// "outputs", "checkpoints" -> hash of all files in each.
  static Json hashes_of_trees(const JobRow& job, const std::string& without) {
    Json hashes = Json::object();
    for (const char* tree : {"outputs", "checkpoints"}) {
      const fs::path place = fs::path(job.directory) / tree;
      if (fs::exists(place)) hashes[tree] = hash_of_tree(place, tree, without);
    }
    return hashes;
  }

  /// Packed data that steps read in place: its identity in the run, and its content.
  Json packed_data() const {
    Json data = Json::object();
    const fs::path base = fs::path(bundle_.manifest.workflow).parent_path();
    for (const auto& [name, identity] : run_.plan.outside) {
      const std::string packed = (base / name).lexically_normal().string();
      const bool is_packed = std::ranges::any_of(
          bundle_.files, [&](const BundleFile& file) { return is_below(file.name, packed); });
      const fs::path place = run_.plan.base / name;
      if (!is_packed || fs::path(name).is_absolute() || data_identity(place) != identity) continue;
      const auto hash_of = [this](const fs::path& file) { return hashes_.sha256(file); };
      data[name] = {{"identity", identity}, {"sha256", content_hash(place, hash_of)}};
    }
    return data;
  }

  Json run_record(Json jobs) const {
    const Plan& plan = run_.plan;
    const Json frozen = read_json_file(plan.directory / "plan.json", kPlanLimits);
    std::map<std::string, Digest> images;
    for (const Image& image : plan.workflow.images) {
      if (!image.digest.empty()) images[image.name] = image.digest;
    }
    return {{"run", run_.status.run},
            {"workflow", plan.workflow.name},
            {"state", name(run_.status.state)},
            {"started", to_rfc3339(run_.status.started)},
            {"ended", json_of(run_.status.ended)},
            {"dlflow", frozen.value("dlflow", "")},
            {"scheduler", plan.profile.scheduler},
            {"container_runtime", plan.profile.container.runtime},
            {"nodes", nodes_.size()},
            {"params", plan.workflow.params},
            {"images", images},
            {"files", plan.files},
            {"data", packed_data()},
            {"jobs", std::move(jobs)}};
  }

  Json node(const std::string& host) const {
    const auto found = std::find(nodes_.begin(), nodes_.end(), host);
    if (found == nodes_.end()) return {};
    return "node-" + std::to_string(found - nodes_.begin() + 1);
  }

  Json job_record(const JobRow& job) const {
    Json events = Json::array();
    Fingerprint fingerprint;
    Json outputs = Json::object();
    for (const JobEvent& event : run_.events_of(job.job)) {
      if (!event.state) continue;
      events.push_back({{"at", to_rfc3339(event.at)},
                        {"attempt", event.attempt},
                        {"state", name(*event.state)},
                        {"node", node(event.node)},
                        {"exit", json_of(event.exit)}});
      if (!event.fingerprint.empty()) fingerprint = event.fingerprint;
      if (event.outputs.is_object()) outputs = event.outputs;
    }
    return {{"job", job.job},
            {"state", name(job.state)},
            {"attempt", job.attempt},
            {"started", json_of(job.started)},
            {"ended", json_of(job.ended)},
            {"fingerprint", fingerprint},
            {"metrics", job.metrics.is_object() ? job.metrics : Json::object()},
            {"outputs", outputs_of(job, outputs)},
            {"events", std::move(events)}};
  }

  /// Replaces paths by those in the bundle, and other values that name this machine by their hash.
  Json outputs_of(const JobRow& job, const Json& recorded) const {
    Json outputs = Json::object();
    for (const auto& [name, output] : recorded.items()) {
      Json value = output.value("value", Json());
      if (value.is_string()) {
        const fs::path path = value.get<std::string>();
        const fs::path inner = path.lexically_relative(job.directory);
        const bool is_own = path.is_absolute() && !inner.empty() &&
                            (*inner.begin() == "outputs" || *inner.begin() == "checkpoints");
        if (is_own && path.string().starts_with(job.directory + "/")) {
          outputs[name]["path"] =
              path.string().substr(job.directory.size() + 1);  // the form that children use
        }
        if (is_own && travels(job)) {
          value = (fs::path(folder_of(job)) / inner).lexically_normal().string();
        }
      }
      if (private_.find_in(value.dump())) value = nullptr;
      outputs[name]["value"] = std::move(value);
      outputs[name]["sha256"] = output.value("sha256", "");
      for (const char* key : {"executable", "matrix"}) {
        if (output.contains(key)) outputs[name][key] = output.at(key);
      }
    }
    return outputs;
  }

  void add_files(const JobRow& job) {
    std::error_code none;
    const fs::path outputs = fs::canonical(fs::path(job.directory) / "outputs", none);
    if (!none) {
      add_tree(outputs, folder_of(job) + "/outputs");
      const fs::path attempt = outputs.parent_path().parent_path();
      const auto metrics = read_file_if_exists(attempt / "metrics.jsonl");
      const std::string numbers = numbers_of(metrics.value_or(""));
      if (!numbers.empty()) {
        bundle_.files.push_back({folder_of(job) + "/metrics.jsonl", {}, numbers});
      }
    }
    add_tree(fs::path(job.directory) / "checkpoints", folder_of(job) + "/checkpoints");
  }

  void add_tree(const fs::path& folder, const std::string& name) {
    std::error_code none;
    fs::recursive_directory_iterator entries(folder, none);
    for (; entries != fs::recursive_directory_iterator(); entries.increment(none)) {
      const fs::path& path = entries->path();
      const fs::path relative = path.lexically_relative(folder);
      const std::string inner = name + "/" + relative.string();
      const std::string in_job = (fs::path(name).filename() / relative).string();
      if (entries->is_directory() && path.filename().string().find(".tmp.") != std::string::npos) {
        entries.disable_recursion_pending();  // a checkpoint that was never complete
        lacks_ = in_job + " was never complete";
      }
      if (entries->is_symlink() && is_below(target_of(path), fs::canonical(folder))) {
        links_[in_job] = target_of(path).lexically_relative(fs::canonical(path.parent_path()));
      } else if (entries->is_directory()) {
        if (entries->is_symlink()) lacks_ = in_job + " is a link to a folder elsewhere";
        if (fs::is_empty(path)) folders_.push_back(in_job);
      }
      if (private_.find_in(in_job + "\n" + links_.value(in_job, ""))) {
        lacks_ = "a name in it belongs to this machine";
      }
      if (!entries->is_regular_file()) continue;
      if (entries->is_symlink() && !is_of_run(path)) {
        left_out_.push_back(inner + " is left out: it is a link to something outside this run");
        lacks_ = in_job + " is left out";
      } else {
        add_file(path, inner);
      }
    }
  }

  bool is_of_run(const fs::path& link) const {
    const fs::path target = fs::canonical(link);
    return target.lexically_relative(fs::canonical(run_.plan.directory)).string().front() != '.';
  }

  void add_file(const fs::path& path, const std::string& name) {
    std::optional<std::string> word = private_.find_in(name);
    if (!word) word = private_.find_in_file(path);
    const bool is_report = fs::path(name).filename() == "outputs.json" &&
                           fs::path(name).parent_path().filename() == "outputs";
    if (word && is_report) {
      without_ = "outputs/outputs.json";  // internal to dlflow, which has already read it
    } else if (word) {
      left_out_.push_back(name + " is left out: it names " + *word);
      lacks_ = "a file of it is left out";
    } else {
      bundle_.files.push_back({name, path});
    }
  }

  Bundle& bundle_;
  const ReportedRun& run_;
  FileHashes& hashes_;
  const std::set<std::string>& steps_;
  std::vector<std::string> nodes_;
  PrivateWords private_;
  std::vector<std::string> left_out_;

  // About the current job:
  std::string lacks_;    // why its result is not packed as published; empty: it is
  std::string without_;  // a file that is left out but not part of the result
  Json links_;           // links within their tree: path below the job's folder -> target
  Json folders_;         // empty folders
};

}  // namespace

std::vector<std::string> add_run(Bundle& bundle, const ReportedRun& run, FileHashes& hashes,
                                 const std::set<std::string>& steps) {
  const std::vector<std::string> names = step_names(run.plan.workflow);
  for (const std::string& step : steps) {
    if (std::find(names.begin(), names.end(), step) != names.end()) continue;
    throw Error(Errc::NotFound,
                "there is no step '" + step + "' in the run" + did_you_mean_or_list(step, names));
  }
  return Recorder(bundle, run, hashes, steps).record();
}

}  // namespace dlflow
