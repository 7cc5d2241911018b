#include "engine/supervisor/shared_results.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/parse_json.h"
#include "base/process.h"
#include "base/remove_tree.h"
#include "engine/model/step_kinds.h"
#include "engine/plan/data_identity.h"
#include "engine/plan/fingerprint.h"
#include "engine/plan/published.h"
#include "engine/supervisor/content_hash.h"
#include "engine/supervisor/results.h"
#include "engine/supervisor/shared_tree.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 2> kTrees = {"outputs", "checkpoints"};

/// The users of a shared cache, according to its folder.
struct Sharing {
  gid_t group;
  mode_t mode;
};

std::optional<Sharing> sharing_of(const fs::path& cache) {
  struct stat info {};
  if (::stat(cache.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return std::nullopt;
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) == 0) return std::nullopt;
  return Sharing{info.st_gid, info.st_mode & 07777};
}

/// Throws Error.
void set_access(const fs::path& path, const Sharing& sharing) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) throw_errno("cannot look at " + path.string(), errno);
  const mode_t readers = S_IRUSR | (sharing.mode & (S_IRGRP | S_IROTH));
  const mode_t runs = (info.st_mode & S_IXUSR) != 0 ? readers >> 2 : 0;
  const mode_t mode = S_ISDIR(info.st_mode) ? sharing.mode : readers | runs;
  if ((info.st_gid != sharing.group && ::chown(path.c_str(), uid_t(-1), sharing.group) != 0) ||
      ::chmod(path.c_str(), mode) != 0) {
    throw_errno("cannot share " + path.string(), errno);
  }
}

/// The folder `name` in `above`, made if need be: all may add to it, and nobody may remove or
/// replace entries of others (the sticky bit).
FileDescriptor shared_folder(const FileDescriptor& above, const std::string& name,
                             const Sharing& sharing) {
  auto made = make_folder(above, name);
  if (!made) return open_within(above, name);
  set_access(path_of(*made), {sharing.group, sharing.mode | S_ISVTX});
  return std::move(*made);
}

fs::path entry_of(const JobSpec& spec, const Fingerprint& fingerprint) {
  const std::string hex = fingerprint.hex();
  return spec.cache / "results" / hex.substr(0, 2) / hex;
}

/// The path of an output, relative to the job's folder; nothing if its value is not a path there.
std::optional<fs::path> path_in_job(const JobSpec& spec, const Json& value) {
  if (!value.is_string()) return std::nullopt;
  const fs::path relative =
      fs::path(value.get<std::string>()).lexically_relative(spec.job_directory);
  if (relative.empty()) return std::nullopt;
  for (const char* tree : kTrees) {
    if (*relative.begin() == tree) return relative;
  }
  return std::nullopt;
}

/// Whether an output outside of the job names files of this machine, which others do not have.
bool lies_elsewhere(const Json& value) { return !places_in(value).empty(); }

/// The data about the outputs for others; nothing if one of them lies elsewhere.
std::optional<Json> describe_outputs(const JobSpec& spec, const Json& outputs) {
  Json described = Json::object();
  for (const auto& [name, output] : outputs.items()) {
    const Json value = output.at("value");
    if (const auto path = path_in_job(spec, value)) {
      described[name] = output;
      described[name].erase("value");
      described[name]["path"] = path->string();
    } else if (lies_elsewhere(value)) {
      return std::nullopt;
    } else {
      described[name] = output;
    }
  }
  return described;
}

/// "outputs" and "checkpoints" -> hash of all files in each, for the trees in `place_of_tree`.
Json hashes_of_trees(const std::function<fs::path(const std::string&)>& place_of_tree) {
  Json hashes = Json::object();
  for (const char* tree : kTrees) {
    const fs::path place = place_of_tree(tree);
    if (fs::exists(place) && !fs::is_empty(place)) hashes[tree] = content_hash(place);
  }
  return hashes;
}

/// A new entry, removed by the destructor unless it was published. Until then nobody else may look
/// into it.
class NewEntry {
 public:
  /// In the open folder `above`.
  NewEntry(FileDescriptor above, const std::string& final_name)
      : above_(std::move(above)),
        final_name_(final_name),
        name_("." + final_name + "." + host_name() + "." + std::to_string(::getpid())) {
    remove_tree(path_of(above_) / name_);
    auto made = make_folder(above_, name_);
    if (!made) throw Error(Errc::Unavailable, "another user made " + name_);
    folder_ = std::move(*made);
  }
  ~NewEntry() {
    std::error_code ignored;
    remove_tree(path_of(above_) / name_, ignored);
  }

  fs::path path() const { return path_of(folder_); }

  void publish(const Sharing& sharing) {
    for (const auto& item : fs::recursive_directory_iterator(path())) {
      set_access(item.path(), sharing);
    }
    set_access(path(), sharing);
    std::error_code there_already;
    fs::rename(path_of(above_) / name_, path_of(above_) / final_name_, there_already);
  }

 private:
  FileDescriptor above_;
  std::string final_name_;
  std::string name_;
  FileDescriptor folder_;
};

/// First removes its name, so that a kill leaves no partial result. False if it may not be removed.
bool remove_entry(const fs::path& entry) {
  const fs::path gone = entry.parent_path() / (".removed." + entry.filename().string() + "." +
                                               host_name() + "." + std::to_string(::getpid()));
  std::error_code error;
  fs::rename(entry, gone, error);
  if (error) return false;
  remove_tree(gone, error);
  return !error;
}

FileDescriptor open_entry(const fs::path& entry) {
  return open_within(open_folder(entry.parent_path()), entry.filename());
}

Json read_result(const FileDescriptor& entry) {
  return read_json_file(path_of(open_within(entry, "result.json")), kForeignJson);
}

/// The name for a result of this user; nothing if an entry there must stay.
std::optional<std::string> free_name(const JobSpec& spec, const Fingerprint& fingerprint,
                                     Existing existing) {
  const fs::path entry = entry_of(spec, fingerprint);
  if (!fs::exists(entry)) return fingerprint.text();
  if (existing == Existing::Stays) return std::nullopt;
  if (remove_entry(entry)) return fingerprint.text();
  const std::string beside = fingerprint.text() + "." + std::to_string(::getuid());
  remove_entry(entry.parent_path() / beside);
  return beside;
}

void add_entry(const JobSpec& spec, const JobEvent& end, const Sharing& sharing,
               Existing existing) {
  // Effects of a command elsewhere are not in a cache.
  if (spec.uses.empty() && act_elsewhere(end.outputs)) return;
  const auto name = free_name(spec, end.fingerprint, existing);
  if (!name) return;
  const auto outputs = describe_outputs(spec, end.outputs);
  if (!outputs) return;
  const std::string digits = entry_of(spec, end.fingerprint).parent_path().filename();
  const FileDescriptor results = shared_folder(open_folder(spec.cache), "results", sharing);
  NewEntry draft(shared_folder(results, digits, sharing), *name);
  for (const char* tree : kTrees) {
    if (fs::exists(spec.job_directory / tree)) {
      copy_tree(fs::canonical(spec.job_directory / tree), draft.path() / tree);
    }
  }
  FreshFileHashes fresh;
  if (const auto change = find_change(spec.job_directory, fresh)) {  // before the copy
    throw Error(Errc::Corrupt, *change + " after it was published");
  }
  const Json trees = hashes_of_trees([&](const std::string& tree) { return draft.path() / tree; });
  const Json result = {{"run", spec.run},
                       {"job", spec.job},
                       {"metrics", end.metrics},
                       {"outputs", *outputs},
                       {"trees", trees}};
  write_file_atomic(draft.path() / "result.json", result.dump(1) + "\n");
  draft.publish(sharing);
}

bool is_shareable(const JobSpec& spec) {
  const StepKind* kind = find_step_kind(spec.uses);
  return kind == nullptr || kind->reuse == StepKind::Reuse::Shared;
}

/// The place of a tree of the entry in the job's folders.
fs::path place_of(const std::string& tree, const JobSpec& spec, const AttemptFiles& files) {
  return tree == "outputs" ? files.outputs() : checkpoints_directory(spec);
}

/// Checks a path that another user claims to be below the job's folder. Throws Error{Corrupt} if it
/// is not.
fs::path place_below(const fs::path& folder, const std::string& name) {
  const fs::path path = name;
  const bool is_known = path.is_relative() && path == path.lexically_normal() && !path.empty() &&
                        std::ranges::find(kTrees, path.begin()->string()) != kTrees.end();
  if (!is_known)
    throw Error(Errc::Corrupt, "a shared result has the invalid file name '" + name + "'");
  return folder / path;
}

Json outputs_here(const Json& outputs, const JobSpec& spec) {
  Json here = Json::object();
  for (const auto& [name, output] : outputs.items()) {
    if (output.contains("path")) {
      const fs::path path = place_below(spec.job_directory, output.at("path").get<std::string>());
      here[name] = {{"value", path.string()}, {"sha256", output.at("sha256")}};
      if (output.value("executable", false)) here[name]["executable"] = true;
      if (output.contains("matrix")) here[name]["matrix"] = output.at("matrix");
    } else if (lies_elsewhere(output.at("value"))) {
      throw Error(Errc::Corrupt,
                  "a shared result has its output '" + name + "' outside its folder");
    } else {
      here[name] = output;
    }
  }
  return here;
}

/// Removes the files of a result that cannot be used.
void clear(const JobSpec& spec, const AttemptFiles& files) {
  for (const char* tree : kTrees) {
    const fs::path place = place_of(tree, spec, files);
    if (!fs::exists(place)) continue;
    for (const auto& item : fs::directory_iterator(place)) remove_tree(item.path());
  }
}

/// The end of the job that takes it must be readable. Throws Error{Corrupt} otherwise.
void check_record(const SharedResult& shared) {
  job_event_from_json(to_json(JobEvent{.outputs = shared.outputs, .metrics = shared.metrics}));
}

SharedResult take_entry(const fs::path& path, const JobSpec& spec, const AttemptFiles& files) {
  const FileDescriptor entry = open_entry(path);
  const Json result = read_result(entry);
  const Json outputs = outputs_here(result.at("outputs"), spec);
  if (spec.uses.empty() && act_elsewhere(outputs)) {
    throw Error(Errc::Corrupt, path.string() + " has results elsewhere");  // by an earlier version
  }
  TreeRoom room{.bytes = fs::space(spec.run_directory).available};
  for (const char* tree : kTrees) {
    if (!fs::exists(path_of(entry) / tree)) continue;
    take_tree(open_within(entry, tree), place_of(tree, spec, files), room);
  }
  const Json taken =
      hashes_of_trees([&](const std::string& tree) { return place_of(tree, spec, files); });
  if (taken != result.at("trees")) {
    throw Error(Errc::Corrupt, path.string() + " was changed after it was shared");
  }
  SharedResult shared = {result.at("run").get<std::string>(), outputs, result.at("metrics")};
  check_record(shared);
  ::futimens(entry.get(), nullptr);  // marks it as used now; a cache may be read-only
  return shared;
}

uint64_t bytes_below(const fs::path& folder) {
  uint64_t bytes = 0;
  for (const auto& item : fs::recursive_directory_iterator(folder)) {
    if (item.is_regular_file()) bytes += item.file_size();
  }
  return bytes;
}

/// Nothing if it is not an entry, or not for this user.
std::optional<StoredResult> read_entry(const fs::path& entry) {
  if (entry.filename().string().starts_with(".")) return std::nullopt;  // being made or removed
  try {
    const Json result = read_result(open_entry(entry));
    return StoredResult{entry,
                        entry.filename().string(),
                        result.at("run").get<std::string>(),
                        result.at("job").get<std::string>(),
                        bytes_below(entry),
                        fs::last_write_time(entry)};
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

/// The entry with this fingerprint, and those beside it, as far as they may be read.
std::vector<fs::path> entries_of(const JobSpec& spec, const Fingerprint& fingerprint) {
  const fs::path first = entry_of(spec, fingerprint);
  std::vector<fs::path> entries = {first};
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(first.parent_path(), none)) {
    if (entry.path().filename().string().starts_with(fingerprint.text() + ".")) {
      entries.push_back(entry.path());
    }
  }
  std::erase_if(entries,
                [&](const fs::path& entry) { return !fs::exists(entry / "result.json", none); });
  std::sort(entries.begin() + (entries.empty() ? 0 : 1), entries.end());
  return entries;
}

bool has_checkpoints(const JobSpec& spec) {
  std::error_code none;
  const fs::path folder = checkpoints_directory(spec);
  return fs::exists(folder, none) && !fs::is_empty(folder, none);
}

}  // namespace

bool share_result(const JobSpec& spec, const JobEvent& end, Existing existing) {
  const auto sharing = is_shareable(spec) ? sharing_of(spec.cache) : std::nullopt;
  if (!sharing) return true;
  try {
    add_entry(spec, end, *sharing, existing);
    return true;
  } catch (const std::exception& error) {
    log(LogLevel::Warning,
        "not shared as " + entry_of(spec, end.fingerprint).string() + ": " + error.what());
    return false;
  }
}

TakenResult take_shared_result(const JobSpec& spec, const AttemptFiles& files,
                               const Fingerprint& fingerprint) {
  if (!spec.reuse || !is_shareable(spec) || !sharing_of(spec.cache)) return {};
  if (has_checkpoints(spec)) return {};  // it has begun, and resumes from there
  TakenResult taken;
  for (const fs::path& entry : entries_of(spec, fingerprint)) {
    try {
      taken.result = take_entry(entry, spec, files);
      return taken;
    } catch (const std::exception& error) {
      log(LogLevel::Warning, std::string("not reused: ") + error.what());
      clear(spec, files);
      taken.was_damaged = true;
    }
  }
  return taken;
}

std::vector<StoredResult> list_shared_results(const fs::path& cache) {
  std::vector<StoredResult> results;
  std::error_code none;
  for (const auto& first_digits : fs::directory_iterator(cache / "results", none)) {
    for (const auto& entry : fs::directory_iterator(first_digits.path(), none)) {
      if (auto result = read_entry(entry.path())) results.push_back(std::move(*result));
    }
  }
  std::ranges::sort(results, {}, &StoredResult::last_used);
  return results;
}

bool remove_shared_result(const StoredResult& result) { return remove_entry(result.folder); }

}  // namespace dlflow
