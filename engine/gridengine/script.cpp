#include "engine/gridengine/script.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "engine/batch/batch_job.h"
#include "engine/gridengine/section.h"

namespace dlflow {
namespace {

using std::chrono::seconds;
using Words = std::vector<std::string>;

[[noreturn]] void refuse(const Batch& batch, const std::string& what, const std::string& key) {
  throw Error(Errc::InvalidInput, "Grid Engine cannot be asked for the resources of " + batch.name +
                                      ": " + what + "; set gridengine." + key + " in the profile");
}

void add(Words& argv, const char* option, const std::string& value) {
  if (value.empty()) return;
  argv.emplace_back(option);
  argv.push_back(value);
}

void add_array(Words& argv, const Batch& batch, const Profile& profile) {
  if (batch.tasks.empty()) return;
  const uint32_t first = batch.tasks.front();
  const uint32_t last = batch.tasks.back();
  DLFLOW_CHECK(last - first + 1 == batch.tasks.size());  // see ArrayRules::gaps
  add(argv, "-t", std::to_string(first + 1) + "-" + std::to_string(last + 1));
  const int throttle = array_throttle(batch, profile);
  if (throttle > 0) add(argv, "-tc", std::to_string(throttle));
}

void add_dependencies(Words& argv, const Batch& batch) {
  std::vector<Dependency> whole;
  std::vector<Dependency> paired;
  for (const Dependency& dependency : batch.dependencies) {
    const bool pairs = dependency.kind == Dependency::Kind::SameTask && !batch.tasks.empty();
    (pairs ? paired : whole).push_back(dependency);
  }
  add(argv, "-hold_jid", hold_list(whole));
  add(argv, "-hold_jid_ad", hold_list(paired));
}

/// A slot is a core; memory is requested per slot.
void add_size(Words& argv, const Batch& batch, const GridEngineOptions& options) {
  const Resources& resources = batch.resources;
  const int slots = resources.ranks * resources.cpus_per_rank;
  if (slots > 1) {
    const std::string& environment = options.parallel_environment;
    if (environment.empty()) {
      refuse(batch, "it needs " + std::to_string(slots) + " slots", "parallel_environment");
    }
    add(argv, "-pe", environment);
    argv.push_back(std::to_string(slots));
  }
  if (resources.exclusive) {
    throw Error(Errc::InvalidInput,
                "Grid Engine cannot be asked for the resources of " + batch.name +
                    ": it needs whole nodes, for which each site has its own resource; define a "
                    "class for it in the profile, `classes: {whole-nodes: {gridengine: "
                    "{options: [\"-l exclusive=true\"]}}}`, and name it with `on: whole-nodes`");
  }
  if (resources.memory_bytes > 0 && !options.memory.empty()) {
    const uint64_t unit = (uint64_t{1} << 20) * uint64_t(slots);
    const uint64_t mebibytes = (resources.memory_bytes + unit - 1) / unit;
    add(argv, "-l", options.memory + "=" + std::to_string(mebibytes) + "M");
  }
  if (resources.gpus_per_rank > 0) {
    if (options.gpus.empty()) refuse(batch, "it needs GPUs", "gpus");
    constexpr std::string_view kNumber = "{gpus}";
    std::string gpus = options.gpus;
    for (size_t at = gpus.find(kNumber); at != gpus.npos; at = gpus.find(kNumber, at)) {
      gpus.replace(at, kNumber.size(), std::to_string(resources.ranks * resources.gpus_per_rank));
    }
    add(argv, "-l", gpus);
  }
}

/// Licences are consumable resources, like memory.
void add_licences(Words& argv, const Batch& batch) {
  for (const auto& [name, count] : batch.resources.licences) {
    add(argv, "-l", name + "=" + std::to_string(count));
  }
}

void add_time(Words& argv, const Batch& batch, const Profile& profile) {
  const auto limit = time_limit(batch.resources, profile);
  if (limit.count() == 0) return;
  const seconds hard(limit);
  const seconds soft = hard - warning_time(limit, batch.lead);
  add(argv, "-l", "h_rt=" + std::to_string(hard.count()) + ",s_rt=" + std::to_string(soft.count()));
}

std::string with_task(std::string_view text) {
  const size_t at = text.find(kTaskWord);
  if (at == text.npos) return shell_quote(text);
  const std::string_view rest = text.substr(at + kTaskWord.size());
  return (at == 0 ? "" : shell_quote(text.substr(0, at))) + "\"$task\"" +
         (rest.empty() ? "" : with_task(rest));
}

std::string script(const Batch& batch) {
  const std::string folder = batch.log.parent_path().string();
  const std::string log =
      (folder.empty() ? "" : shell_quote(folder + "/")) + with_task(batch.log.filename().string());
  std::string text = "#!" + batch_shell() + "\n";
  // The shell is usually a login shell, whose profiles have changed PATH.
  text += "PATH=${SGE_O_PATH:-$PATH}; export PATH\n";
  // SIGUSR1, sent before the walltime, would kill the shell; the command handles it.
  text += "trap '' USR1\n";
  text += batch.tasks.empty() ? "task=0\n" : "task=$((SGE_TASK_ID - 1))\n";
  text += "cd " + shell_quote(batch.run_directory.string()) + " && true >>" + log + " || exit " +
          std::to_string(kLogRefused) + "\nexec >>" + log + " 2>&1\nexec";
  for (const std::string& word : batch.command) text += " " + with_task(word);
  return text + "\n";
}

}  // namespace

std::string hold_list(std::span<const Dependency> dependencies) {
  std::vector<std::string> ids;
  for (const Dependency& dependency : dependencies) ids.emplace_back(array_id(dependency.id));
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return join(ids, ",");
}

QsubCall qsub_call(const Batch& batch, const Profile& profile) {
  const GridEngineOptions options = gridengine_options(profile);
  // -C "" disables options in the script, and -V exports the whole environment to the job.
  Words argv = {"qsub", "-terse", "-C", "", "-V", "-N", batch.name};
  add(argv, "-S", batch_shell());
  for (const char* const word : {"-wd", "/", "-o", "/dev/null", "-j", "y"}) argv.emplace_back(word);
  argv.emplace_back("-notify");
  add(argv, "-r", batch.may_requeue ? "y" : "n");
  add_array(argv, batch, profile);
  add_dependencies(argv, batch);
  add_size(argv, batch, options);
  add_licences(argv, batch);
  add_time(argv, batch, profile);
  add(argv, "-P", options.project);
  add(argv, "-q", options.queue);
  for (const std::string& option : options.options) {
    const size_t space = option.find(' ');
    argv.push_back(option.substr(0, space));
    if (space != option.npos) argv.emplace_back(trim(std::string_view(option).substr(space)));
  }
  return {std::move(argv), script(batch)};
}

}  // namespace dlflow
