#include "engine/plan/run_directory.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <random>
#include <variant>

#include "base/error.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/parse_json.h"
#include "base/remove_tree.h"
#include "engine/model/parse.h"
#include "engine/model/step_kinds.h"
#include "engine/plan/changes.h"
#include "engine/plan/data_identity.h"
#include "engine/plan/extension.h"
#include "engine/plan/inherited.h"
#include "engine/plan/layout.h"
#include "engine/plan/notifications.h"
#include "engine/plan/places.h"
#include "engine/plan/plan_json.h"
#include "engine/plan/programs.h"
#include "engine/plan/sources.h"
#include "engine/plan/surroundings.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Eight digits: among 10,000 runs, a new name is drawn twice with a chance of 1 %, and then
/// redrawn. Separate stores almost never collide.
std::string random_digits() {
  static std::mt19937 generator{std::random_device{}()};
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", unsigned(generator()));
  return digits;
}

/// A new, empty folder below `runs`. commit() makes it the run's folder once it is complete.
class NewDirectory {
 public:
  NewDirectory(const fs::path& runs, const std::string& workflow, const NameTaken& taken)
      : runs_(runs) {
    constexpr int kMaxTries = 10'000;
    constexpr size_t kMostOfWorkflow = 64;  // names of batch jobs hold the run and the step
    for (int tries = 0; tries < kMaxTries; ++tries) {
      run_ = workflow.substr(0, kMostOfWorkflow) + "-" + random_digits();
      std::error_code ignored;
      if (fs::exists(final(), ignored) || (taken && taken(run_))) continue;
      if (::mkdir(temporary().c_str(), 0700) == 0) return;
      if (errno != EEXIST) throw_errno("cannot create folder " + temporary().string(), errno);
    }
    throw Error(Errc::InvalidInput,
                runs_.string() + " holds too many runs of '" + workflow + "'; remove some of them");
  }
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;
  ~NewDirectory() {
    std::error_code ignored;
    if (!committed_) remove_tree(renamed_ ? final() : temporary(), ignored);
  }

  const std::string& run() const { return run_; }
  fs::path temporary() const { return runs_ / ("." + run_ + ".tmp"); }

  void commit() {
    sync_directory(temporary());
    if (::rename(temporary().c_str(), final().c_str()) != 0) {
      throw_errno("cannot create folder " + final().string(), errno);
    }
    renamed_ = true;
    sync_directory(runs_);
    committed_ = true;
  }

 private:
  fs::path final() const { return runs_ / run_; }

  fs::path runs_;
  std::string run_;
  bool renamed_ = false;
  bool committed_ = false;
};

void freeze(const fs::path& from, const fs::path& to) {
  make_directories(to.parent_path());
  if (!fs::exists(to)) copy_content(from, to);
}

/// The value of `key` in `with`; expressions that are not known yet are left unevaluated.
Json value_of(const Plan& plan, const Step& step, const std::string& key) {
  return step.with.evaluate_known({.params = &plan.workflow.params}).value(key, Json());
}

bool is_expression(const Json& value) {
  return value.is_string() && value.get_ref<const std::string&>().find("${{") != std::string::npos;
}

/// The programs and plug-ins beside dlflow that steps use: name -> advice if it is missing; "" if
/// it may turn out to be unnecessary.
std::map<std::string, std::string> programs_of(const Plan& plan) {
  std::map<std::string, std::string> programs;
  for (uint32_t i = 0; i < plan.steps.size(); ++i) {
    if (!plan.steps[i].planned) continue;
    const Step& step = plan.workflow.steps[i];
    const StepKind* kind = find_step_kind(step.uses);
    if (kind == nullptr || step.image == kReleaseImage) continue;  // the release image has them
    if (!kind->program.empty()) programs[kind->program] = "`./dev build` makes it";
    for (const Demand& demand : kind->demands) {
      const Json value = value_of(plan, step, demand.key);
      if (value == demand.value) programs[demand.file] = demand.advice;
      if (is_expression(value)) programs.emplace(demand.file, "");
    }
  }
  return programs;
}

void copy_programs(const Plan& plan, const fs::path& program, const fs::path& runs,
                   const fs::path& run) {
  share_program(program, runs, run / "bin/dlflow");
  std::error_code no_link;
  const fs::path target = fs::read_symlink(program, no_link);
  const fs::path beside = (no_link ? program : target).parent_path();
  for (const auto& [name, advice] : programs_of(plan)) {
    std::error_code ignored;
    if (fs::exists(beside / name, ignored)) {
      share_with_libraries(beside / name, runs, run);
    } else if (!advice.empty()) {
      throw Error(Errc::NotFound,
                  "a step needs " + (beside / name).string() + ", which is not there; " + advice);
    }
  }
}

/// Removes write permission: steps get links to large files and to their folders, not copies.
void forbid_writing(const fs::path& path) {
  constexpr fs::perms kWrite =
      fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write;
  fs::permissions(path, kWrite, fs::perm_options::remove);
}

void copy_sources(const Plan& plan, const fs::path& folder) {
  const fs::path base = frozen_base(folder, plan.files);
  make_directories(base);
  FreshFileHashes hashes;
  for (const auto& [name, content] : plan.files) {
    const fs::path frozen = frozen_path(base, name);
    freeze(plan.base / name, frozen);
    forbid_writing(frozen);
    if (content_of(frozen, hashes) != content) {
      throw Error(Errc::InvalidInput,
                  (plan.base / name).string() + " changed while it was copied; try again");
    }
  }
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_directory()) forbid_writing(entry.path());
  }
  forbid_writing(folder);
}

FrozenSettings read_settings(const fs::path& directory) {
  const fs::path file = directory / "plan.json";
  const auto text = read_file_if_exists(file);
  if (!fs::exists(directory)) {
    throw Error(Errc::NotFound, "the run directory " + directory.string() +
                                    " is gone; `dlflow run WORKFLOW` starts a new run");
  }
  if (!text) {
    throw Error(Errc::NotFound, directory.string() + " is not the folder of a run: it has no " +
                                    file.filename().string());
  }
  try {
    const Json json = parse_json(*text, kPlanLimits);
    if (json.is_discarded()) throw Error(Errc::Corrupt, "not JSON");
    return frozen_settings_from_json(json);
  } catch (const Error& error) {
    throw Error(error.code(), file.string() + ": " + error.what());
  }
}

/// \param frozen  with the file and the parameters of its workflow
Workflow parse_frozen(const fs::path& directory, const Plan& frozen) {
  const Workflow& known = frozen.workflow;
  // Workflow files are frozen; the originals may be gone.
  auto parsed =
      parse_workflow_text(read_file(directory / "workflow.yaml"), known.file,
                          settings_of(known.params, known.written), {.check_files = false});
  if (const auto* diagnostics = std::get_if<Diagnostics>(&parsed)) {
    throw Error(Errc::Corrupt, "this dlflow does not accept the workflow that run " + frozen.run +
                                   " has in " + (directory / "workflow.yaml").string() + ": " +
                                   to_string(diagnostics->front()) +
                                   ". Another version made the run, or the file was changed. The "
                                   "program that made it can continue it: " +
                                   frozen_program(directory).string() + " run --resume " +
                                   frozen.run);
  }
  return std::get<Workflow>(std::move(parsed));
}

void take_release_image(Workflow& workflow, const FrozenSettings& settings) {
  if (settings.release_image.empty()) return;
  workflow.images.push_back({kReleaseImage, settings.release_image, {}, {}, Json()});
  for (Step& step : workflow.steps) {
    if (settings.in_release_image.contains(step.name)) step.image = kReleaseImage;
  }
}

/// Advice on how to put runs into another folder.
std::string how_to_choose_runs(const Profile& profile) {
  if (!profile.file.empty()) return "`paths: {runs: FOLDER}` of " + profile.file + " names it";
  return "runs are in the current folder unless a profile names another: `paths: {runs: FOLDER}` "
         "in cluster-profiles/NAME.yaml, then `--profile NAME`";
}

/// A new folder below `folder`, which is created if needed. Errors name the key that chose it.
NewDirectory new_directory(const Plan& plan, const fs::path& folder, const NameTaken& taken) {
  try {
    make_directories(folder);
    struct statvfs place {};
    const bool is_here = plan.profile.scheduler == "local";
    if (is_here && ::statvfs(folder.c_str(), &place) == 0 && (place.f_flag & ST_NOEXEC) != 0) {
      throw Error(Errc::InvalidInput, folder.string() +
                                          " is on a file system that runs no programs (noexec), "
                                          "but a run has its own copy of dlflow");
    }
    return NewDirectory(folder, plan.workflow.name, taken);
  } catch (const Error& error) {
    if (error.code() != Errc::InvalidInput) throw;
    throw Error(error.code(), std::string(error.what()) + "; " + how_to_choose_runs(plan.profile));
  }
}

}  // namespace

void create_run_directory(Plan& plan, const fs::path& runs, Time now, const fs::path& program,
                          const NameTaken& taken) {
  const fs::path folder = fs::absolute(runs).lexically_normal();
  NewDirectory directory = new_directory(plan, folder, taken);
  const fs::path temporary = directory.temporary();
  plan.run = directory.run();
  plan.directory = folder / directory.run();
  plan.created = now;
  copy_programs(plan, program, folder, temporary);
  copy_sources(plan, temporary / plan.sources);
  write_file_atomic(temporary / "lock", "");
  Variables variables =
      variables_from(Provider::Plan, inherited_by(plan.profile, plan.workflow.steps));
  for (const std::string& name : plan.secret_variables) variables.erase(name);
  write_variables(temporary, variables);
  write_notifications(temporary, plan.workflow.notify);
  write_file_atomic(temporary / "workflow.yaml", plan.workflow.text, Durability::Synced);
  write_file_atomic(temporary / "plan.json", frozen_settings(plan).dump(1) + "\n",
                    Durability::Synced);
  directory.commit();
}

Plan load_run(const fs::path& directory) {
  FrozenSettings settings = read_settings(directory);
  Plan plan = std::move(settings.plan);
  plan.directory = fs::absolute(directory).lexically_normal();
  plan.workflow = parse_frozen(plan.directory, plan);
  take_release_image(plan.workflow, settings);
  for (Image& image : plan.workflow.images) {
    const auto pinned = settings.images.find(image.name);
    if (pinned != settings.images.end()) image.digest = pinned->second;
  }
  take_extensions(plan, read_extensions(plan.directory));
  lay_out(plan);
  decide(plan, [&](uint32_t job) -> std::optional<KnownResult> {
    const auto found = settings.reused.find(plan.jobs[job].name);
    if (found == settings.reused.end()) return std::nullopt;
    return found->second;
  });
  place_jobs(plan);
  apply_changes(plan);
  for (uint32_t step = 0; step < plan.steps.size(); ++step) {
    if (!plan.steps[step].planned) continue;
    FrozenStep& found = plan.steps[step];
    found = std::move(settings.steps.at(plan.workflow.steps[step].name));
  }
  return plan;
}

void replace_sources(Plan& plan, std::span<const uint32_t> anew) {
  for (int n = 2;; ++n) {  // an existing one is in use, or was left by a crash
    plan.sources = "sources-" + std::to_string(n);
    if (::mkdir((plan.directory / plan.sources).c_str(), 0700) == 0) break;
    if (errno != EEXIST) throw_errno("cannot create folder " + plan.sources, errno);
  }
  copy_sources(plan, plan.directory / plan.sources);
  sync_directory(plan.directory);
  const fs::path file = plan.directory / "plan.json";
  Json settings = read_json_file(file, kPlanLimits);
  const Json now = frozen_settings(plan);
  for (const char* key : {"sources", "files", "outside", "data", "steps"}) {
    settings[key] = now.at(key);
  }
  for (const uint32_t job : anew) settings["reused"].erase(plan.jobs[job].name);
  write_file_atomic(file, settings.dump(1) + "\n", Durability::Synced);
}

std::string run_name(const fs::path& directory) { return read_settings(directory).plan.run; }

Profile run_profile(const fs::path& directory) { return read_settings(directory).plan.profile; }

std::optional<std::string> cluster_of(const fs::path& run_directory) {
  return read_file_if_exists(cluster_file(run_directory));
}

fs::path cluster_file(const fs::path& run_directory) { return run_directory / "cluster"; }

fs::path engine_events_file(const fs::path& run_directory) {
  return run_directory / "events.jsonl";
}

fs::path frozen_program(const fs::path& run_directory, std::string_view name) {
  return run_directory / "bin" / name;
}

fs::path frozen_file(const Plan& plan, const std::string& name) {
  return frozen_path(frozen_base(plan.directory / plan.sources, plan.files), name);
}

bool create_once(const fs::path& file, std::string_view content) {
  make_directories(file.parent_path());
  const fs::path draft = file.parent_path() / ("." + process_name() + ".draft");
  write_file_atomic(draft, content, Durability::Synced);
  // A rename would replace another process's file.
  const bool made = ::link(draft.c_str(), file.c_str()) == 0;
  const int problem = errno;
  ::unlink(draft.c_str());
  if (!made && problem != EEXIST) throw_errno("cannot create " + file.string(), problem);
  return made;
}

fs::path job_directory(const fs::path& run_directory, const JobName& job) {
  const fs::path step = run_directory / "steps" / job.step();
  const std::string_view element = job.element();
  return element.empty() ? step : step / element;
}

}  // namespace dlflow
