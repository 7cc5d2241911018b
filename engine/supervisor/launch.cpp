#include "engine/supervisor/launch.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "base/cores.h"
#include "base/error.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "base/process.h"
#include "base/units.h"
#include "engine/model/step_kinds.h"
#include "engine/plan/inherited.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/sources.h"
#include "engine/plan/surroundings.h"
#include "engine/ranks/rank_nodes.h"
#include "engine/ranks/rank_variables.h"
#include "engine/supervisor/container.h"
#include "engine/supervisor/kept_checkpoints.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

const char* unit_name(CheckpointPolicy::Unit unit) {
  switch (unit) {
    case CheckpointPolicy::Unit::Epochs:
      return "epochs";
    case CheckpointPolicy::Unit::Steps:
      return "steps";
    case CheckpointPolicy::Unit::Seconds:
      break;
  }
  return "seconds";
}

std::vector<std::string> environment(const JobSpec& spec, const ResolvedJob& job,
                                     const AttemptFiles& files,
                                     const std::optional<std::string>& gpus,
                                     const Secrets& secrets) {
  std::map<std::string, std::string> values;
  if (!spec.container) values = secrets;
  values.merge(declared_environment(spec, job, files));
  if (gpus) values.emplace("CUDA_VISIBLE_DEVICES", *gpus);
  // Other programs get these variables from rank-exec, or in their containers.
  if (spec.uses.empty() && !spec.container && job.ranks.num_programs() == 1) {
    values.merge(rank_variables(job.ranks));
  }
  Variables inherited = passed_on(caller_variables(spec), spec);
  if (spec.uses.empty() && !spec.container && job.ranks.num_programs() == 1) {
    for (const std::string& name : misleading_variables(job.ranks)) inherited.erase(name);
  }
  values.merge(inherited);
  values.emplace("LANG", "C.UTF-8");  // a result must not depend on a user's language
  if (const auto path = values.find("PATH"); path != values.end() && !spec.container) {
    path->second += ":" + frozen_program(spec.run_directory).parent_path().string();
  }
  std::vector<std::string> list;
  for (const auto& [key, value] : values) list.push_back(key + "=" + value);
  return list;
}

/// dlflow's own programs start their ranks themselves, all on this machine, if there is no mpirun.
/// `setup:` lines may provide one.
bool starts_own_ranks(const JobSpec& spec) {
  const StepKind* const kind = find_step_kind(spec.uses);
  const Resources& each = spec.resources;
  const bool others_start = spec.container && container_starts_ranks(*spec.container);
  return kind != nullptr && !kind->program.empty() && each.ranks > 1 && !others_start &&
         spec.setup.empty() && !spec.launcher.empty() && spec.launcher.front() == "mpirun" &&
         !find_program("mpirun", environment_variable("PATH")) &&
         rank_nodes(each.ranks, each.cpus_per_rank, environment_variable).size() == 1;
}

/// The profile's launcher with what depends on this machine: Open MPI refuses root and more ranks
/// than cores unless told, and would bind ranks of several jobs to the same cores.
std::vector<std::string> launcher(const JobSpec& spec, const RankPlan& ranks) {
  if (spec.resources.ranks <= 1 || spec.launcher.empty()) return {};
  if (spec.launch == Launch::Node && ranks.num_programs() == 1) return {};
  if (starts_own_ranks(spec)) return {};
  std::vector<std::string> argv = rank_launcher(spec, ranks);
  if (fs::path(argv.front()).filename() != "mpirun") return argv;
  const auto has = [&](const char* word) {
    return std::find(argv.begin(), argv.end(), word) != argv.end();
  };
  std::vector<std::string> extra;
  if (::geteuid() == 0 && !has("--allow-run-as-root")) extra.emplace_back("--allow-run-as-root");
  if (!has("--bind-to")) extra.insert(extra.end(), {"--bind-to", "none"});
  const int cores = spec.resources.ranks * spec.resources.cpus_per_rank;
  if (cores > usable_cores() && !has("--oversubscribe")) extra.emplace_back("--oversubscribe");
  argv.insert(argv.begin() + 1, extra.begin(), extra.end());
  return argv;
}

/// Batch systems signal all processes of a job. A shell without a trap would die at once, and its
/// program with it. SLURM also signals one process after the other: the program for which the shell
/// waits may die first, and `-e` end the shell, before the shell gets the signal of its trap. A
/// trap ends `wait`, too, although the program still saves.
constexpr const char* kScriptThatSaves =
    "trap : USR1 TERM; trap 'case $? in 138 | 143) sleep 1; wait ;; esac' EXIT; . \"$0\"";

/// Whether a launcher starts the programs of the job, and forwards signals.
bool has_launcher(const JobSpec& spec, const RankPlan& ranks) {
  if (spec.container && container_starts_ranks(*spec.container)) return true;
  return !launcher(spec, ranks).empty();
}

/// Launchers forward SIGUSR1 and SIGUSR2. A signal that the program handles must not reach it this
/// way, too.
int launchers_signal(int asks_by) { return asks_by == SIGTERM ? SIGUSR1 : SIGUSR2; }

/// Gives the copy the time of the original; a program that writes to the copy changes the time.
void copy_input(const fs::path& frozen, const fs::path& place) {
  copy_content(frozen, place);
  fs::permissions(place, fs::perms::owner_write, fs::perm_options::add);
  fs::last_write_time(place, fs::last_write_time(frozen));
}

/// Files of an earlier pass of the attempt stay.
void give_inputs(const JobSpec& spec, const fs::path& work) {
  const std::set<std::string> copied = copied_inputs(spec.inputs);
  for (const auto& [name, frozen] : spec.inputs) {
    const fs::path place = work / name;
    if (fs::exists(fs::symlink_status(place))) continue;
    make_directories(place.parent_path());
    if (copied.contains(name)) {
      copy_input(frozen, place);
    } else {
      fs::create_symlink(frozen, place);
    }
  }
}

/// Files that a program saves there survive its pass and its attempt, also for a program without
/// dlflow.
void link_saved_folder(const JobSpec& spec, const AttemptFiles& files) {
  const std::string name = spec.checkpoint ? folder_of_pattern(spec.checkpoint->newer) : "";
  if (name.empty()) return;
  const fs::path folder = checkpoints_directory(spec) / name;
  make_directories(folder);
  std::error_code exists_from_an_earlier_pass;
  fs::create_directory_symlink(folder, files.work() / name, exists_from_an_earlier_pass);
}

/// Whether the pass before has ended with a checkpoint, so that this one takes over its files.
bool follows_saved_pass(const AttemptFiles& files) {
  if (files.pass == 1) return false;
  std::optional<JobEvent> last;
  for (JobEvent& event : EventTail(files.events()).read()) {
    if (event.state) last = std::move(event);
  }
  return last && last->state == JobState::Queued && last->exit == kExitAgain;
}

void take_over_folders(AttemptFiles before) {
  const fs::path own = before.own();
  while (--before.pass > 0) {
    if (::rename(before.own().c_str(), own.c_str()) == 0) return;
    if (errno != ENOENT) throw_errno("cannot take over " + before.own().string(), errno);
  }
}

/// Whether a launcher starts a command, which then gets the variables of its rank.
bool needs_rank_exec(const JobSpec& spec) {
  return spec.uses.empty() && !spec.container && spec.resources.ranks > 1;
}

bool has_values(const JobSpec& spec) { return !spec.uses.empty() || !spec.with.empty(); }

[[noreturn]] void throw_too_long(const std::string& what, size_t bytes, size_t most) {
  throw Error(Errc::InvalidInput,
              what + " " + format_size(bytes) + ", but a program can be given only " +
                  format_size(most) +
                  "; put a long list into the step's `with: {NAME: …}`, which the program finds in "
                  "the JSON file $DLFLOW_WITH");
}

/// exec(2) would only report "Argument list too long".
void check_length(const Command& command) {
  constexpr size_t kLongest =
      size_t{128} * 1024;  // MAX_ARG_STRLEN, including the end of the string
  const auto most = size_t(::sysconf(_SC_ARG_MAX));
  size_t total = 0;
  for (const auto* list : {&command.argv, &command.environment}) {
    for (const std::string& word : *list) {
      total += word.size() + 1 + sizeof(char*);
      if (word.size() < kLongest) continue;
      const bool variable = list == &command.environment;
      throw_too_long(variable ? "its variable " + word.substr(0, word.find('=')) + " has"
                              : "one of its arguments has",
                     word.size(), kLongest);
    }
  }
  if (total > most) throw_too_long("its arguments and variables have", total, most);
}

std::vector<std::string> shell_command(const std::string& shell) {
  if (shell == kBash) return {shell, "-e", "-o", "pipefail"};
  return {shell, "-e"};
}

}  // namespace

std::vector<std::string> arguments_of(const Json& words) {
  std::vector<std::string> argv;
  for (const Json& word : words) {
    const Json one = Json::array({word});
    for (const Json& argument : word.is_array() ? word : one) {
      argv.push_back(text_or_dump(argument));
    }
  }
  if (argv.empty()) throw Error(Errc::InvalidInput, "`run:` has no words: its lists are empty");
  return argv;
}

bool is_untouched_input(const JobSpec& spec, const fs::path& work, const fs::path& place) {
  if (spec.inputs.empty()) return false;
  const auto input = spec.inputs.find(place.lexically_relative(work).string());
  if (input == spec.inputs.end()) return false;
  std::error_code none;
  return fs::is_regular_file(fs::symlink_status(place, none)) &&
         fs::file_size(place, none) == fs::file_size(input->second, none) &&
         fs::last_write_time(place, none) == fs::last_write_time(input->second, none);
}

Variables caller_variables(const JobSpec& spec) {
  Variables variables = variables_from(Provider::Job, spec.inherit);
  auto planned = read_variables(spec.run_directory);
  if (!planned) planned = variables_from(Provider::Plan, spec.inherit);
  std::erase_if(*planned, [&](const auto& variable) {  // only for some steps
    return !is_inherited(variable.first, spec.inherit);
  });
  variables.merge(*planned);
  return variables;
}

std::string host_shell() { return ::access(kBash, X_OK) == 0 ? kBash : kSh; }

std::map<std::string, std::string> passed_on(std::map<std::string, std::string> variables,
                                             const JobSpec& spec) {
  if (spec.uses.empty()) return variables;
  std::erase_if(variables, [](const auto& variable) { return chooses_numerics(variable.first); });
  return variables;
}

std::map<std::string, std::string> declared_environment(const JobSpec& spec, const ResolvedJob& job,
                                                        const AttemptFiles& files) {
  std::map<std::string, std::string> values;
  values["DLFLOW_STEP"] = spec.step;
  values["DLFLOW_JOB"] = spec.job;
  if (spec.sees_run || !spec.uses.empty()) {  // otherwise its result could not be reused
    values["DLFLOW_RUN"] = spec.run;
    values["DLFLOW_ATTEMPT"] = std::to_string(files.number);
    values["DLFLOW_PASS"] = std::to_string(files.pass);
  }
  values["DLFLOW_RANKS"] = std::to_string(spec.resources.ranks);
  values["DLFLOW_CPUS_PER_RANK"] = std::to_string(spec.resources.cpus_per_rank);
  values["OMP_NUM_THREADS"] = values["DLFLOW_CPUS_PER_RANK"];
  if (has_values(spec)) values["DLFLOW_WITH"] = files.with();
  values["DLFLOW_OUTPUTS"] = files.outputs();
  if (can_save(spec.uses, spec.checkpoint)) {
    values["DLFLOW_CHECKPOINTS"] = checkpoints_directory(spec);
  }
  values["DLFLOW_METRICS"] = spec.secrets.empty() ? files.metrics() : files.given_metrics();
  values["DLFLOW_SUMMARY"] = files.summary();
  values["DLFLOW_CACHE"] = spec.cache;
  if (spec.cache_budget_bytes > 0) {
    values["DLFLOW_CACHE_BUDGET"] = std::to_string(spec.cache_budget_bytes);
  }
  if (!spec.scratch.empty()) values["DLFLOW_SCRATCH"] = spec.scratch;
  if (spec.scratch_budget_bytes > 0) {
    values["DLFLOW_SCRATCH_BUDGET"] = std::to_string(spec.scratch_budget_bytes);
  }
  if (spec.checkpoint) {
    values["DLFLOW_CHECKPOINT_EVERY"] =
        std::to_string(spec.checkpoint->every) + " " + unit_name(spec.checkpoint->unit);
    values["DLFLOW_CHECKPOINT_KEEP"] = std::to_string(spec.checkpoint->keep);
  }
  for (const auto& [key, value] : spec.params.items()) {
    values[environment_name("DLFLOW_PARAM_", key)] = text_or_dump(value);
  }
  for (const auto& [key, value] : spec.element.items()) {
    values[environment_name("DLFLOW_MATRIX_", key)] = text_or_dump(value);
    if (!value.is_object()) continue;
    for (const auto& [inner, part] : value.items()) {
      values[environment_name("DLFLOW_MATRIX_", key + "_" + inner)] = text_or_dump(part);
    }
  }
  if (const auto seed = spec.element.find(kRepeatAxis); seed != spec.element.end()) {
    values["DLFLOW_SEED"] = text_or_dump(*seed);
  }
  for (const auto& [key, value] : job.environment.items()) values[key] = text_or_dump(value);
  return values;
}

std::vector<std::string> rank_launcher(const JobSpec& spec, const RankPlan& ranks) {
  std::vector<std::string> argv = spec.launcher;
  if (spec.launch != Launch::Node) return argv;
  const std::string nodes = std::to_string(ranks.num_programs());
  const std::string program = fs::path(argv.front()).filename();
  std::vector<std::string> numbers = {"-np", nodes, "--map-by", "ppr:1:node"};
  if (program == "mpiexec.hydra") numbers = {"-np", nodes, "-ppn", "1"};
  if (program == "srun") {
    numbers = srun_per_node(ranks, spec.resources.cpus_per_rank, spec.resources.gpus_per_rank);
  }
  argv.insert(argv.end(), numbers.begin(), numbers.end());
  return argv;
}

bool is_by_srun(const JobSpec& spec) {
  return spec.resources.ranks > 1 && !spec.launcher.empty() &&
         fs::path(spec.launcher.front()).filename() == "srun";
}

std::vector<std::string> rank_program(const JobSpec& spec, const ResolvedJob& job,
                                      const AttemptFiles& files, const std::string& shell) {
  const bool is_release = spec.container && spec.container->image == kReleaseImage;
  const fs::path bin = is_release ? fs::path("/usr/bin") : spec.run_directory / "bin";
  if (const StepKind* kind = find_step_kind(spec.uses)) {
    if (kind->program.empty()) return {bin / "dlflow", "step", kind->name};
    if (!starts_own_ranks(spec)) return {bin / kind->program, files.with()};
    return {bin / kind->program, "--ranks", std::to_string(spec.resources.ranks), files.with()};
  }
  if (job.run_command.is_string()) {
    std::vector<std::string> script = shell_command(shell);
    if (spec.checkpoint) script.insert(script.end(), {"-c", kScriptThatSaves});
    script.push_back(files.script());
    return script;
  }
  return arguments_of(job.run_command);
}

fs::path checkpoints_directory(const JobSpec& spec) { return spec.job_directory / "checkpoints"; }

RankPlan plan_ranks(const JobSpec& spec, const Json& environment) {
  RankPlan plan;
  plan.ranks = spec.resources.ranks;
  plan.one_per_node = spec.launch == Launch::Node;
  plan.told = plan.one_per_node || !spec.resources.alone;
  plan.nodes = rank_nodes(plan.ranks, spec.resources.cpus_per_rank, environment_variable);
  // The first rank is on this machine, unless dlflow itself is outside of the job's nodes.
  if (plan.nodes.size() > 1) {
    plan.master_address = is_outside_of_nodes() ? plan.nodes.front().name : host_name();
  }
  if (plan.told) plan.master_port = free_port();
  for (const auto& [name, value] : environment.items()) plan.given.insert(name);
  plan.given.insert(spec.secrets.begin(), spec.secrets.end());
  if (!spec.checkpoint) return plan;
  const bool by_term = spec.checkpoint->signal == CheckpointPolicy::Signal::Term;
  plan.asks_by = plan.asked_by = by_term ? SIGTERM : SIGUSR1;
  if (has_launcher(spec, plan)) plan.asked_by = launchers_signal(plan.asks_by);
  return plan;
}

bool has_relay(const JobSpec& spec, const RankPlan& ranks) {
  return !spec.uses.empty() || spec.container || has_launcher(spec, ranks);
}

void prepare_files(const JobSpec& spec, const ResolvedJob& job, const AttemptFiles& files) {
  if (follows_saved_pass(files) && !begins_anew(files)) take_over_folders(files);
  for (const fs::path& folder : {files.own(), files.work(), files.outputs()}) {
    make_directories(folder);
  }
  give_inputs(spec, files.work());
  link_saved_folder(spec, files);
  if (has_values(spec)) write_file(files.with(), job.with.dump(2) + "\n");
  if (job.run_command.is_string()) {
    write_file(files.script(), job.run_command.get<std::string>() + "\n");
  }
  if (needs_rank_exec(spec)) write_file(files.ranks(), json_of(job.ranks).dump() + "\n");
  if (spec.container) {
    write_file(files.container(), to_json(container_job(spec, job, files)).dump(2) + "\n");
  }
}

Command make_command(const JobSpec& spec, const ResolvedJob& job, const AttemptFiles& files,
                     const std::optional<std::string>& gpus, const Secrets& secrets) {
  Command command;
  if (!spec.setup.empty()) {
    std::string lines;
    for (const std::string& line : spec.setup) lines += line + "\n";
    command.argv = shell_command(host_shell());
    command.argv.insert(command.argv.end(), {"-c", lines + "exec \"$@\"", "setup"});
  }
  const std::vector<std::string> program = spec.container
                                               ? container_program(spec, files)
                                               : rank_program(spec, job, files, host_shell());
  const bool starts_ranks = spec.container && container_starts_ranks(*spec.container);
  std::vector<std::string> words =
      starts_ranks ? std::vector<std::string>() : launcher(spec, job.ranks);
  if (!words.empty() && needs_rank_exec(spec)) {
    words.insert(words.end(), {frozen_program(spec.run_directory), "rank-exec", files.ranks()});
  }
  for (const auto& part : {words, program}) {
    command.argv.insert(command.argv.end(), part.begin(), part.end());
  }
  command.environment = environment(spec, job, files, gpus, secrets);
  command.directory = files.work();
  command.standard_output = files.standard_output();
  command.standard_error = files.standard_error();
  command.own_group = true;
  command.dies_with_parent = true;
  command.closes_descriptors = true;
  command.has_fixed_limits = true;
  check_length(command);
  return command;
}

}  // namespace dlflow
