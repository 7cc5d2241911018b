#include "engine/slurm/script.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/batch/batch_job.h"
#include "engine/slurm/section.h"

namespace dlflow {
namespace {

using std::chrono::minutes;

template <typename Number>
Number ceil_divide(Number value, Number by) {
  return (value + by - 1) / by;
}

std::string mebibytes(uint64_t bytes) {
  return std::to_string(ceil_divide(bytes, uint64_t{1} << 20)) + "M";
}

void replace_all(std::string& text, std::string_view from, const std::string& to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

std::string_view key_of(std::string_view option) {
  option.remove_prefix(std::min<size_t>(2, option.size()));
  return option.substr(0, option.find('='));
}

/// Maps options that sbatch does not accept together to one topic.
std::string_view topic_of(std::string_view key) {
  if (key.starts_with("mem")) return "mem";
  if (key.starts_with("gpus") || key == "gres") return "gpus";
  return key;
}

/// The options, quoted, one per line. The profile's free options replace those added here.
class Options {
 public:
  explicit Options(std::vector<std::string> free) : free_(std::move(free)) {}

  void add(std::string_view key, std::string_view value) {
    if (!is_free(key)) write(key, value);
  }
  void add(std::string_view key, int value) { add(key, std::to_string(value)); }
  void add_given(std::string_view key, std::string_view value) {
    if (!value.empty()) add(key, value);
  }
  void flag(std::string_view key) {
    if (!is_free(key)) text_ += "#SBATCH --" + std::string(key) + "\n";
  }

  void add_free() {
    for (const std::string& option : std::exchange(free_, {})) {
      const size_t equals = option.find('=');
      if (equals == option.npos) {
        flag(key_of(option));
      } else {
        write(key_of(option), std::string_view(option).substr(equals + 1));
      }
    }
  }

  const std::string& text() const { return text_; }

 private:
  bool is_free(std::string_view key) const {
    return std::any_of(free_.begin(), free_.end(), [key](const std::string& option) {
      return topic_of(key_of(option)) == topic_of(key);
    });
  }

  void write(std::string_view key, std::string_view value) {
    const bool control = std::any_of(value.begin(), value.end(),
                                     [](char c) { return uint8_t(c) < ' ' || c == 127; });
    if (control) {
      throw Error(Errc::InvalidInput, "sbatch cannot be given --" + std::string(key) +
                                          ": there is a line break or another control character "
                                          "in " +
                                          shell_quote(value));
    }
    text_ += "#SBATCH --" + std::string(key) + "=" + sbatch_quote(value) + "\n";
  }

  std::vector<std::string> free_;
  std::string text_;
};

/// Escapes a path for --output, where % begins a pattern, and a backslash anywhere disables
/// patterns.
std::string output_pattern(const std::filesystem::path& log, bool is_array) {
  std::string folder = log.parent_path().string();
  std::string file = log.filename().string();
  const bool expands = log.string().find('\\') == std::string::npos;
  for (std::string* part : {&folder, &file}) {
    replace_all(*part, expands ? "%" : "\\", expands ? "%%" : "\\\\");
  }
  replace_all(file, kTaskWord, is_array && expands ? "%a" : "0");
  return folder.empty() ? file : folder + "/" + file;
}

void add_size(Options& options, const Resources& resources, const Profile& profile) {
  const int nodes = num_nodes(resources, profile);
  const int ranks_on_node = max_ranks_on_node(resources, profile);
  if (nodes > 0) options.add("nodes", nodes);
  options.add("ntasks", resources.ranks);
  if (nodes > 0) options.add("ntasks-per-node", ranks_on_node);
  options.add("cpus-per-task", resources.cpus_per_rank);
  const auto ranks = uint64_t(resources.ranks);
  if (resources.memory_bytes > 0 && nodes > 0) {
    options.add("mem", mebibytes(ceil_divide(resources.memory_bytes, ranks) * ranks_on_node));
  } else if (resources.memory_bytes > 0) {
    const uint64_t cpus = ranks * uint64_t(resources.cpus_per_rank);
    options.add("mem-per-cpu", mebibytes(ceil_divide(resources.memory_bytes, cpus)));
  }
  if (resources.gpus_per_rank == 0) return;
  if (std::string gres = slurm_options(profile).gres; nodes > 0 && !gres.empty()) {
    replace_all(gres, "{gpus}", std::to_string(resources.gpus_per_rank * ranks_on_node));
    options.add("gres", gres);
  } else {
    options.add("gpus-per-task", resources.gpus_per_rank);
    // Otherwise each rank sees only its own GPUs, and NCCL may find no direct path between two.
    if (resources.ranks > 1) options.add("gpu-bind", "none");
  }
}

void add_time(Options& options, const Batch& batch, const Profile& profile) {
  const minutes limit = time_limit(batch.resources, profile);
  if (limit.count() > 0) options.add("time", int(limit.count()));
  options.add("signal", "B:USR1@" + std::to_string(warning_time(limit, batch.lead).count()));
}

void add_place(Options& options, const Batch& batch, const SlurmOptions& slurm) {
  options.add_given("partition", slurm.partition);
  options.add_given("account", slurm.account);
  options.add_given("qos", slurm.qos);
  options.add_given("constraint", slurm.constraint);
  options.add_given("reservation", slurm.reservation);
  if (slurm.exclusive || batch.resources.exclusive) options.flag("exclusive");
  std::vector<std::string> licences;
  for (const auto& [name, count] : batch.resources.licences) {
    licences.push_back(name + ":" + std::to_string(count));
  }
  options.add_given("licenses", join(licences, ","));
}

std::string shell_command(const std::vector<std::string>& command) {
  std::string line = "exec";
  for (const std::string& word : command) {
    line += " " + (word == kTaskWord ? "\"${SLURM_ARRAY_TASK_ID:-0}\"" : shell_quote(word));
  }
  return line + "\n";
}

/// Adds the nodes to exclude to those in the profile's own option.
std::vector<std::string> free_options(const Batch& batch, const Profile& profile) {
  std::vector<std::string> options = slurm_options(profile).options;
  if (batch.excluded_nodes.empty()) return options;
  const std::string nodes = join(batch.excluded_nodes, ",");
  const auto own = std::find_if(options.begin(), options.end(), [](const std::string& option) {
    return key_of(option) == "exclude";
  });
  if (own != options.end()) {
    *own += "," + nodes;
  } else {
    options.push_back("--exclude=" + nodes);
  }
  return options;
}

}  // namespace

std::string sbatch_quote(std::string_view word) {
  constexpr std::string_view kSafe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  if (!word.empty() && word.find_first_not_of(kSafe) == word.npos) return std::string(word);
  std::string quoted = "\"";
  for (const char c : word) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

std::string dependency_text(std::span<const Dependency> dependencies) {
  std::string after_ok;
  std::string after_task;
  std::string after_end;
  for (const Dependency& dependency : dependencies) {
    switch (dependency.kind) {
      case Dependency::Kind::Success:
        after_ok += ":" + dependency.id;
        break;
      case Dependency::Kind::SameTask:
        after_task += ":" + dependency.id;
        break;
      case Dependency::Kind::End:
        after_end += ":" + dependency.id;
        break;
    }
  }
  std::string text = after_ok.empty() ? "" : "afterok" + after_ok;
  if (!after_task.empty()) text += (text.empty() ? "aftercorr" : ",aftercorr") + after_task;
  if (!after_end.empty()) text += (text.empty() ? "afterany" : ",afterany") + after_end;
  if (text.size() <= kMaxDependencyText) return text;
  throw Error(Errc::InvalidInput, "a job must wait for " + format_count(dependencies.size()) +
                                      " others one by one, more than SLURM reads (128 KiB of ids); "
                                      "when most of them have ended, try again");
}

std::string sbatch_script(const Batch& batch, const Profile& profile) {
  Options options(free_options(batch, profile));
  options.add("job-name", batch.name);
  options.add_given("comment", batch.comment);
  if (!batch.tasks.empty()) {
    std::string range = format_array_range(batch.tasks);
    if (const int throttle = array_throttle(batch, profile); throttle > 0)
      range += "%" + std::to_string(throttle);
    options.add("array", range);
  }
  options.add_given("dependency", dependency_text(batch.dependencies));
  if (batch.leaves_if_hopeless) options.add("kill-on-invalid-dep", "yes");
  add_size(options, batch.resources, profile);
  add_time(options, batch, profile);
  add_place(options, batch, slurm_options(profile));
  options.flag(batch.may_requeue ? "requeue" : "no-requeue");
  options.add("chdir", batch.run_directory.string());
  options.add("output", output_pattern(batch.log, !batch.tasks.empty()));
  options.add("open-mode", "append");
  options.add("export", "ALL");
  options.add_free();
  // SIGUSR1, sent before the walltime, would kill the shell; the command handles it.
  return "#!" + batch_shell() + "\n" + options.text() + "\ntrap '' USR1\n" +
         shell_command(batch.command);
}

}  // namespace dlflow
