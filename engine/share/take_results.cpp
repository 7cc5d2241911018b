#include <sys/stat.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/local_files.h"
#include "base/parse_json.h"
#include "base/remove_tree.h"
#include "base/sha256.h"
#include "engine/plan/extension.h"
#include "engine/plan/published.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/shared_reason.h"
#include "engine/share/packed_results.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Says of a run's folder which results it was made of; written last.
constexpr const char* kOrigin = "bundle.json";

Time now() {
  return std::chrono::time_point_cast<Time::duration>(std::chrono::system_clock::now());
}

/// Which results these are: what was verified of them, and so what the run has.
std::string digest_of(const PackedResults& results) {
  Json jobs = Json::object();
  for (const auto& [job, result] : results.by_job) {
    Json& seen = jobs[results.plan.jobs[job].name];
    seen = {result.known.fingerprint, result.trees, result.known.metrics};
    for (const auto& [name, output] : result.known.outputs.items()) {
      seen.push_back({name, output.at("sha256")});
    }
  }
  return sha256_hex(Json{results.run, jobs}.dump(-1, ' ', true));
}

/// Whether `name` may be that of a run of the workflow: it becomes a folder here.
bool is_run_name(const std::string& name, const std::string& workflow) {
  if (!name.starts_with(workflow + "-")) return false;
  const std::string digits = name.substr(workflow.size() + 1);
  return digits.size() == 8 && digits.find_first_not_of("0123456789abcdef") == digits.npos;
}

void make_link(const fs::path& folder, const std::string& name, const std::string& target) {
  const fs::path link = folder / name;
  make_directories(link.parent_path());
  if (fs::canonical(link.parent_path()) != fs::canonical(folder) / fs::path(name).parent_path()) {
    throw Error(Errc::Corrupt, "its link '" + name + "' lies behind another");
  }
  fs::remove(link);  // the bundle has a copy for people
  fs::create_symlink(target, link);
}

/// A link may lead to a link: all of them stay in their tree, and lead to something.
void check_links(const fs::path& folder, const PackedResult& result) {
  for (const auto& [name, target] : result.links) {
    std::error_code none;
    const fs::path reached = fs::canonical(folder / name, none);
    const fs::path tree = fs::canonical(folder / *fs::path(name).begin());
    if (none || !is_below(reached, tree)) {
      throw Error(Errc::Corrupt, "its link '" + name + "' leads elsewhere");
    }
  }
}

/// Copies a result into `folder`, without its links first: nothing is written through one.
void copy_result(const PackedResult& result, const fs::path& folder) {
  for (const auto& [tree, hash] : result.trees) {
    const fs::path from = result.known.directory / tree;
    make_directories(folder / tree);
    std::error_code none;
    for (const auto& entry : fs::recursive_directory_iterator(from, none)) {
      if (entry.is_symlink() || !(entry.is_regular_file() || entry.is_directory())) {
        throw Error(Errc::Corrupt, entry.path().string() + " is no plain file");
      }
      if (!entry.is_regular_file()) continue;
      const fs::path to = folder / tree / entry.path().lexically_relative(from);
      make_directories(to.parent_path());
      copy_content(entry.path(), to);
    }
  }
  for (const std::string& name : result.folders) make_directories(folder / name);
  for (const auto& [name, target] : result.links) make_link(folder, name, target);
  check_links(folder, result);
}

void check_trees(const PackedResult& result, const fs::path& folder) {
  for (const auto& [tree, hash] : result.trees) {
    if (hash_of_tree(folder / tree, tree) != hash) {
      throw Error(Errc::Corrupt, "its " + tree + " are not what was packed: another checksum");
    }
  }
  for (const auto& [name, output] : result.known.outputs.items()) {
    const Json& value = output.at("value");
    if (!value.is_string()) continue;
    const fs::path path = value.get<std::string>();
    if (!is_below(path, result.known.directory)) continue;
    if (!fs::exists(folder / path.lexically_relative(result.known.directory))) {
      throw Error(Errc::Corrupt, "its output '" + name + "' is not there");
    }
  }
}

/// What is published of `folder`, without the right to write to it.
Publication publication_of(const PackedResult& result, const fs::path& folder) {
  Publication publication;
  for (const auto& [tree, hash] : result.trees) {
    publication.trees.push_back(tree);
    for (PublishedEntry& entry : list_published(folder / tree, tree)) {
      if (entry.kind == PublishedEntry::Kind::File) {
        const fs::path file = folder / entry.name;
        fs::permissions(file,
                        fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write,
                        fs::perm_options::remove);
        entry.identity = identity_of(file);
        entry.sha256 = sha256_file(file);
      }
      publication.entries.push_back(std::move(entry));
    }
  }
  return publication;
}

/// No result is what was packed: there is to be no run.
struct NothingTaken {};

/// The folder of a run while it is filled.
class Filler {
 public:
  Filler(PackedResults& results, const Plan& plan, std::string bundle)
      : results_(results), plan_(plan), bundle_(std::move(bundle)) {}

  void fill(const fs::path& folder) {
    for (const Extension& extension : plan_.extensions) write_extension(folder, extension);
    std::string events;
    for (uint32_t job = 0; job < plan_.jobs.size(); ++job) {
      const auto result = results_.by_job.find(job);
      const bool is_packed = result != results_.by_job.end();
      if (is_packed && takes(folder, job, result->second)) {
        events += to_line(event(job, JobState::Submitting, result->second.started)) + "\n";
      } else {
        if (is_packed) results_.by_job.erase(result);
        JobEvent without = event(job, JobState::Cancelled, results_.started);
        without.attempt = 0;
        without.reason = "no result of it was taken from bundle " + bundle_;
        events += to_line(without) + "\n";
      }
    }
    if (results_.by_job.empty()) throw NothingTaken{};
    write_file_atomic(folder / "events.jsonl", events, Durability::Synced);
  }

 private:
  JobEvent event(uint32_t job, JobState state, Time at) const {
    JobEvent event;
    event.job = plan_.jobs[job].name;
    event.attempt = 1;
    event.state = state;
    event.at = std::min(at, now());  // a stranger's clock
    return event;
  }

  /// False, with nothing left of it, if the result is not what was packed.
  bool takes(const fs::path& run, uint32_t job, const PackedResult& result) {
    const fs::path folder = job_directory(run, plan_.jobs[job].name);
    try {
      make_directories(folder);
      copy_result(result, folder);
      check_trees(result, folder);
      publish(folder, job, result);
      return true;
    } catch (const Error& error) {
      if (error.code() != Errc::Corrupt) throw;
      remove_tree(folder);
      results_.refuse(job, error.what());
      return false;
    }
  }

  void publish(const fs::path& folder, uint32_t job, const PackedResult& result) const {
    const Publication publication = publication_of(result, folder);
    const fs::path pass = folder / "attempt-1/pass-1";
    make_directories(pass);
    if (fs::exists(folder / "outputs")) {
      fs::rename(folder / "outputs", pass / "outputs");
    } else {
      make_directories(pass / "outputs");
    }
    fs::create_symlink("attempt-1/pass-1/outputs", folder / "outputs");
    write_publication(pass, publication);
    const auto metrics = result.known.directory / "metrics.jsonl";
    if (fs::is_regular_file(metrics)) copy_content(metrics, folder / "attempt-1/metrics.jsonl");
    JobEvent running = event(job, JobState::Running, result.started);
    JobEvent end = event(job, JobState::Succeeded, result.ended);
    running.job = end.job = "";
    end.exit = 0;
    end.reason = bundle_reason(bundle_);
    end.fingerprint = result.known.fingerprint;
    end.metrics = result.known.metrics;
    end.outputs = outputs_here(job, result);
    write_file_atomic(folder / "attempt-1/events.jsonl",
                      to_line(running) + "\n" + to_line(end) + "\n", Durability::Synced);
  }

  Json outputs_here(uint32_t job, const PackedResult& result) const {
    Json outputs = result.known.outputs;
    for (Json& output : outputs) {
      if (!output.at("value").is_string()) continue;
      const fs::path path = output.at("value").get<std::string>();
      if (!path.is_absolute()) continue;
      output["value"] =
          (job_directory(plan_, job) / path.lexically_relative(result.known.directory)).string();
    }
    return outputs;
  }

  PackedResults& results_;
  const Plan& plan_;
  std::string bundle_;
};

}  // namespace

std::string take_results(PackedResults& results, const fs::path& runs, const std::string& bundle,
                         Store& store) {
  if (results.by_job.empty()) return "";
  const std::string digest = digest_of(results);
  const std::string& workflow = results.plan.workflow.name;
  std::vector<std::string> names = {workflow + "-" + digest.substr(0, 8)};
  if (is_run_name(results.run, workflow)) names.insert(names.begin(), results.run);
  for (const std::string& name : names) {
    const fs::path folder = fs::absolute(runs / name).lexically_normal();
    if (fs::exists(folder)) {
      const Json origin = parse_json(read_file_if_exists(folder / kOrigin).value_or(""));
      if (origin.is_object() && origin.value("digest", "") == digest) return store.sync_run(folder);
      continue;
    }
    if (store.has_run(name)) continue;  // in another folder
    Plan plan = results.plan;
    plan.workflow.notify = {};
    const auto fill = [&](const fs::path& temporary) {
      Filler(results, plan, bundle).fill(temporary);
      const Json origin = {{"bundle", bundle}, {"digest", digest}};
      write_file_atomic(temporary / kOrigin, origin.dump(1) + "\n");
    };
    try {
      create_run_directory(plan, runs, name, std::min(results.started, now()), fill);
    } catch (const NothingTaken&) {
      return "";
    }
    sync_tree(folder);
    return store.sync_run(folder);
  }
  throw Error(Errc::InvalidInput, runs.string() + " has a run " + names.back() +
                                      " already, which is another; remove it first");
}

}  // namespace dlflow
