#include "engine/batch/probe.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/batch/container_probe.h"
#include "engine/container/runtime.h"
#include "engine/model/step_kinds.h"
#include "engine/model/tools.h"
#include "engine/plan/programs.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// $1 folder of the probe, $2 token, $3 cache or "", $4 scratch or "", $5 dlflow, $6 number of
/// ranks, then the launcher with its arguments. Each line of `result` is KEY=VALUE; a missing line
/// means that the test failed.
constexpr const char* kScript = R"sh(
cd "$1" 2>/dev/null && [ "$(cat token 2>/dev/null)" = "$2" ] && : > part || exit 3
cache=$3 scratch=${4:-${TMPDIR:-/tmp}} dlflow=$5 ranks=$6
shift 6
exec >> part 2> errors
shell=/bin/bash
[ -x $shell ] || shell=/bin/sh
echo "clock=$(date +%s)"
writable() { mkdir -p "$1" && : > "$1/.dlflow-probe.$$" && rm "$1/.dlflow-probe.$$"; }
echo "node=$(uname -n)"
if [ -n "$cache" ] && writable "$cache"; then echo cache=writable; fi
if writable "$scratch"; then echo "scratch=$scratch"; fi
if [ -d /dev/shm ]; then df -Pk /dev/shm | { read -r line; read -r line size line; echo "shm=$size"; }; fi
if [ -e self-query.sh ]; then
  if $shell self-query.sh > /dev/null 2> said; then
    echo self-query=answers
  else
    { sed -n '/./s/^/self-query-error=/p' said; echo 'self-query-error='; } | head -n 1
  fi
fi
if "$dlflow" --version > /dev/null; then echo dlflow=runs; fi
if $shell -e setup.sh > /dev/null; then
  echo setup=done
else
  $shell lines.sh 3>&1 > /dev/null 2> said
  sed -n '/./s/^/setup-error=/p' said | tail -n 1
fi
for program in bin/*; do
  [ -e "$program" ] || continue
  problem=$($shell -c '. ./setup.sh > /dev/null; exec "$0" load-check "$1"' "$dlflow" "$program")
  echo "program=${program#bin/} $problem"
done
n=0
while [ -e environment-$n.sh ]; do
  $shell environment-$n.sh
  n=$((n + 1))
done
if $shell -c '. ./setup.sh > /dev/null; command -v "$1"' probe "$1" > /dev/null; then echo launcher=found; fi
if [ -e container-tool ]; then
  $shell -c '. ./setup.sh > /dev/null; read -r tool < container-tool; command -v "$tool"' > /dev/null && echo container-tool=found
fi
if [ -e container.json ]; then
  $shell -c '. ./setup.sh > /dev/null; exec "$0" container-run container.json' "$dlflow" > container 2>&1
  if grep -q '^dlflow ' container; then echo container=works; fi
  sed -n '1,5s/^/container-error=/p' container
fi
: > errors
$shell -c '. ./setup.sh > /dev/null; exec "$@"' probe "$@" uname -n | sed 's/^/rank=/'
sed -n '1,5s/^/error=/p' errors
if [ -e bin/dlflow-train ]; then
  $shell -c '. ./setup.sh > /dev/null; ranks=$1; shift; command -v "$1" > /dev/null && exec "$@" bin/dlflow-train --meet
    exec bin/dlflow-train --ranks "$ranks" --meet' probe "$ranks" "$@" > meeting 2>&1
  sed -n 's/^[0-9]* ranks* by /meeting=/p; s/^error: /meeting-error=/p' meeting
fi
echo end=
mv part result
)sh";

/// Tries the parts of an environment one after the other, as the job of its step would: failing
/// parts are left out, so that all failures are reported. In an error the tool's own words come
/// first.
constexpr const char* kTry = R"sh(. ./setup.sh > /dev/null 2>&1
works() {
  if (eval "$3") > /dev/null 2> said; then
    eval "$3" > /dev/null 2>&1
    echo "environment-$1-works=$2"
  else
    echo "environment-$1-fails=$2 $({ grep -v '^error: ' said; sed -n 's/^error: //p' said; } | grep . | head -n 1)"
  fi
}
)sh";

/// The lines of a result: key -> its values.
using Values = std::map<std::string, std::vector<std::string>>;

Values read_values(const std::string& text) {
  Values values;
  for (const std::string& line : split(text, '\n')) {
    const size_t equals = line.find('=');
    if (equals != line.npos) values[line.substr(0, equals)].push_back(line.substr(equals + 1));
  }
  return values;
}

std::string setting(const Profile& profile, const std::string& key) {
  return key + " in " + (profile.file.empty() ? "the profile" : profile.file);
}

std::string launcher_text(const Profile& profile) {
  std::vector<std::string> words = {profile.launcher.program};
  words.insert(words.end(), profile.launcher.arguments.begin(), profile.launcher.arguments.end());
  return join(words, " ");
}

std::string key_of_environment(size_t number, const std::string& what) {
  return "environment-" + std::to_string(number) + "-" + what;
}

std::string script_of(const ProbedEnvironment& environment, size_t number) {
  std::string script = kTry;
  size_t check = 0;
  for (const ToolCheck& tool : tool_checks(environment.tools, environment.base)) {
    script += "works " + std::to_string(number) + " " + std::to_string(check++) + " " +
              shell_quote(tool.line) + "\n";
  }
  if (brings_python(environment.tools)) {
    script += "echo \"" + key_of_environment(number, "python") + "=$(python3 -V 2>&1)\"\n";
  }
  return script;
}

/// Prints on descriptor 3 the setup line that ends the shell.
std::string numbered_lines(const Profile& profile, const std::string& exports) {
  std::string script =
      exports + "trap '[ $? = 0 ] || echo \"setup-line=$dlflow_line\" >&3' EXIT\nset -e\n";
  for (size_t i = 0; i < profile.setup.size(); ++i) {
    script += "dlflow_line=" + std::to_string(i) + "\n" + profile.setup[i] + "\n";
  }
  return script;
}

/// The program of a runtime with which the probe starts no container; empty: none.
std::string container_tool(const Profile& profile) {
  const ContainerSettings& container = profile.container;
  const ContainerRuntime* const runtime = find_runtime(container.runtime);
  if (runtime == nullptr || can_probe(profile.container)) return "";
  return container.command.empty() ? std::string(runtime->sign()) : container.command.front();
}

class Findings {
 public:
  Findings(Values values, const Profile& profile) : values_(std::move(values)), profile_(profile) {}

  bool has(const std::string& key) const { return values_.contains(key); }
  bool is_here() const { return profile_.scheduler == "local"; }
  std::string there() const { return is_here() ? "here" : "there"; }

  void add(bool works, const std::string& good, const std::string& bad, const std::string& advice) {
    findings_.push_back(works ? Finding{Finding::Kind::Works, good, ""}
                              : Finding{Finding::Kind::Fails, bad, advice});
  }

  void add_folders() {
    if (!profile_.cache.empty()) {
      const std::string cache = "the cache, " + profile_.cache.string() + ", ";
      add(has("cache"), cache + "exists and is writable", cache + "cannot be written to",
          "Set " + setting(profile_, "paths.cache") + " to a folder that nodes can write to.");
    }
    add(has("scratch"),
        "the node's own disk, " + (has("scratch") ? values_["scratch"][0] : "") + ", is writable",
        "there is no writable folder on the node's own disk",
        "Set " + setting(profile_, "paths.scratch") + ".");
    const uint64_t shared = std::strtoull(first("shm").c_str(), nullptr, 10) << 10;
    const std::string has_room = "the node's /dev/shm has " + format_size(shared);
    add(shared >= kRoomToShare, has_room,
        has_room + ", too little for memory that ranks and loader processes of a node share",
        "Ask the site for more; in containers it is an option, such as docker's --shm-size=8g.");
  }

  /// \param now  the time of reading the result.
  void add_clock(Time made, Time now) {
    if (is_here()) return;  // one clock
    const Time node{std::chrono::seconds(std::strtoll(first("clock").c_str(), nullptr, 10))};
    const bool behind = node < made - kClockTolerance;
    const auto apart = std::chrono::ceil<std::chrono::seconds>(behind ? made - node : node - now);
    add(!behind && node <= now + kClockTolerance, "the node's clock agrees with this machine's",
        "the node's clock is " + format_duration(apart) + (behind ? " behind" : " ahead of") +
            " this machine's",
        "Ask the site to synchronise the clocks (NTP): time limits and times of files go wrong.");
  }

  /// Jobs requeue themselves with the same program.
  /// \param query  Probe::self_query
  void add_self_query(const std::string& query) {
    if (!has("self-query") && !has("self-query-error")) return;
    const std::string error = first("self-query-error");
    const std::string tool = query.substr(0, query.find(' '));
    add(has("self-query"), tool + " answers there",
        tool + " does not answer on the node" + (error.empty() ? "" : ": " + error),
        "Ask the site for " + tool +
            " on its nodes: without it no job continues after its walltime or is retried.");
  }

  void add_programs() {
    add(has("dlflow"), "dlflow runs " + there(), "this dlflow does not run on the node",
        "Copy the static dlflow of a release to a folder that nodes can read.");
    if (!profile_.setup.empty()) {
      const std::string failure = failing_line();
      const bool no_modules =
          failure.find("module: ") != failure.npos && failure.find("not found") != failure.npos;
      add(has("setup"), "the setup lines work", failure,
          no_modules
              ? "Put a line that defines `module`, such as `. /etc/profile.d/modules.sh`, "
                "first in " +
                    setting(profile_, "setup") + "."
              : "Try the lines of " + setting(profile_, "setup") + " in a shell on the node.");
    }
  }

  /// \param runtime  Probe::release_runtime
  void add_step_programs(const std::string& runtime) {
    for (const std::string& line : values_["program"]) {
      const size_t space = line.find(' ');
      const std::string name = line.substr(0, space), problem = line.substr(space + 1);
      const size_t advice = std::min(problem.rfind("; "), problem.size());
      if (!problem.empty() && !runtime.empty()) {
        add(true,
            name + " runs in the release's image with " + runtime + ", since " +
                problem.substr(0, advice),
            "", "");
        continue;
      }
      add(problem.empty(), name + " can be loaded " + there(),
          name + " cannot be loaded " + there() + ": " + problem.substr(0, advice),
          problem.substr(std::min(advice + 2, problem.size())));
    }
  }

  void add_environments(const std::vector<ProbedEnvironment>& environments) {
    for (size_t i = 0; i < environments.size(); ++i) add_environment(environments[i], i);
  }

  void add_container() {
    const std::string& runtime = profile_.container.runtime;
    if (const std::string tool = container_tool(profile_); !tool.empty()) {
      add(has("container-tool"), "the container tool " + tool + " is on the node",
          "there is no program '" + tool + "' on the node, which container.runtime " + runtime +
              " needs",
          "Load it in " + setting(profile_, "setup") + ", or change " +
              setting(profile_, "container") + ".");
    }
    if (!can_probe(profile_.container)) return;
    add(has("container"), "containers run with " + runtime,
        "no container runs with " + runtime + ": " + join(values_["container-error"], "; "),
        "Change " + setting(profile_, "container") +
            "; docs/user/containers.md describes what it needs.");
  }

  void add_launcher(int num_ranks) {
    const std::vector<std::string>& ranks = values_["rank"];
    const std::set<std::string> nodes(ranks.begin(), ranks.end());
    const std::string what = "the launcher, " + launcher_text(profile_) + ",";
    const std::vector<std::string> places(nodes.begin(), nodes.end());
    if (int(ranks.size()) == num_ranks) {
      add(true,
          what + " started " + std::to_string(num_ranks) +
              (num_ranks == 1 ? " rank on " : " ranks on ") + join(places, ", "),
          "", "");
    } else if (!has("launcher") && only_commands_need_launcher()) {
      findings_.push_back({Finding::Kind::Works,
                           "there is no mpirun: dlflow's own programs start their ranks themselves",
                           "A `run:` step on several ranks needs one."});
    } else if (!has("launcher")) {
      add(false, "", what + " is not on the node",
          "Load its module in " + setting(profile_, "setup") + ", or give its path as " +
              setting(profile_, "launcher.program") + ".");
    } else {
      const std::string errors = join(values_["error"], "; ");
      add(false, "",
          what + " started " + std::to_string(ranks.size()) + " of " + std::to_string(num_ranks) +
              " ranks" + (errors.empty() ? "" : ": " + errors),
          "Change " + setting(profile_, "launcher") +
              "; `srun --mpi=list` lists what srun supports.");
    }
  }

  /// As reported by the programs, side by side: only they know their launcher's MPI.
  void add_meeting() {
    if (!has("meeting") && !has("meeting-error")) return;
    add(has("meeting"), "ranks of dlflow's programs meet by " + first("meeting"),
        "ranks of dlflow's programs do not meet: " + first("meeting-error"),
        "Change " + setting(profile_, "launcher") + ", or load its MPI in " +
            setting(profile_, "setup") + ".");
  }

  std::vector<Finding> take() { return std::move(findings_); }

 private:
  /// Docker's 64 MiB are too small for any training.
  static constexpr uint64_t kRoomToShare = uint64_t{256} << 20;
  static constexpr std::chrono::seconds kClockTolerance{5};

  /// As starts_own_ranks() of the supervisor.
  bool only_commands_need_launcher() const {
    return profile_.scheduler == "local" && profile_.launcher.program == "mpirun" &&
           profile_.setup.empty();
  }

  std::string first(const std::string& key) {
    return has(key) ? values_[key].front() : std::string();
  }

  /// "the setup line `module load cuda/99` fails: …"
  std::string failing_line() {
    const auto& lines = values_["setup-line"];
    const auto& errors = values_["setup-error"];
    std::string text = "a setup line";
    for (size_t i = 0; i < profile_.setup.size() && !lines.empty(); ++i) {
      if (lines.front() == std::to_string(i)) text = "the setup line `" + profile_.setup[i] + "`";
    }
    return text + " fails" + (errors.empty() ? "" : ": " + errors.front());
  }

  /// One line if everything loads, else one for each failure.
  void add_environment(const ProbedEnvironment& environment, size_t number) {
    const std::vector<ToolCheck> checks = tool_checks(environment.tools, environment.base);
    const std::string of = "the environment of " + environment.steps;
    const auto& works = values_[key_of_environment(number, "works")];
    std::map<std::string, std::string> failures;  // number of the check -> why
    for (const std::string& line : values_[key_of_environment(number, "fails")]) {
      const size_t space = line.find(' ');
      failures[line.substr(0, space)] = space == line.npos ? "" : line.substr(space + 1);
    }
    std::vector<std::string> loaded;
    for (size_t i = 0; i < checks.size(); ++i) {
      const std::string check = std::to_string(i);
      if (std::find(works.begin(), works.end(), check) != works.end()) {
        loaded.push_back(checks[i].what);
        continue;
      }
      const std::string why = failures.contains(check) ? failures.at(check) : "it was not tried";
      add(false, "",
          of + ": " + checks[i].what + " does not load" + (why.empty() ? "" : ": " + why),
          "Change `environment:` of the step, or install it where nodes can read it.");
    }
    if (loaded.size() < checks.size()) return;
    const auto& python = values_[key_of_environment(number, "python")];
    add(true, of + " loads: " + join(loaded, ", ") + (python.empty() ? "" : " (" + python[0] + ")"),
        "", "");
  }

  Values values_;
  const Profile& profile_;
  std::vector<Finding> findings_;
};

/// The end of a job that left no result.
std::vector<Finding> without_result(const Probe& probe, const Profile& profile,
                                    const BatchJob& job) {
  const std::string node = job.node.empty() ? "the node" : job.node;
  // Without accounting the exit status is unknown.
  const bool not_shared =
      job.log_refused || job.exit.value_or(kFolderNotShared) == kFolderNotShared;
  if (job.state == BatchState::Failed && not_shared) {
    return {{Finding::Kind::Fails,
             node + " cannot access the folder of runs, " + probe.folder.parent_path().string(),
             "Set " + setting(profile, "paths.runs") +
                 " to a folder that login and compute nodes share."}};
  }
  const std::string ending = ending_in_words(job);
  return {{Finding::Kind::Fails,
           "job " + job.id + " left no result on " + node + (ending.empty() ? "" : ": " + ending),
           "Look at " + (probe.folder / "log").string() + "."}};
}

/// The programs of steps beside `program`, and their libraries.
void copy_step_programs(const fs::path& program, const fs::path& folder) {
  std::error_code no_link;
  const fs::path target = fs::read_symlink(program, no_link);
  const fs::path beside = (no_link ? program : target).parent_path();
  for (const StepKind& kind : step_kinds()) {
    if (kind.program.empty() || !fs::exists(beside / kind.program)) continue;
    share_with_libraries(beside / kind.program, folder, folder);
  }
}

}  // namespace

void prepare_probe(const Probe& probe, const Profile& profile, const fs::path& program) {
  make_directories(probe.folder);
  write_file_atomic(probe.folder / "token", probe.token + "\n");
  std::string setup;
  for (const auto& [name, value] : profile.environment) {
    setup += "export " + name + "=" + shell_quote(value) + "\n";
  }
  write_file_atomic(probe.folder / "lines.sh", numbered_lines(profile, setup));
  for (const std::string& line : profile.setup) setup += line + "\n";
  write_file_atomic(probe.folder / "setup.sh", setup);
  for (size_t i = 0; i < probe.environments.size(); ++i) {
    write_file_atomic(probe.folder / ("environment-" + std::to_string(i) + ".sh"),
                      script_of(probe.environments[i], i));
  }
  copy_content(program, probe.folder / "dlflow");
  copy_step_programs(program, probe.folder);
  if (can_probe(profile.container)) prepare_container(probe.folder, profile.container);
  if (!probe.self_query.empty()) {
    write_file_atomic(probe.folder / "self-query.sh", probe.self_query + "\n");
  }
  if (const std::string tool = container_tool(profile); !tool.empty()) {
    write_file_atomic(probe.folder / "container-tool", tool + "\n");
  }
}

Batch probe_batch(const Probe& probe, const Profile& profile) {
  Batch batch;
  batch.name = "dlflow-probe-" + probe.token;
  batch.comment = "dlflow profile check";
  batch.resources.ranks = probe.ranks;
  batch.resources.walltime = std::chrono::minutes(2);
  batch.may_requeue = false;
  batch.run_directory = "/";  // every node has it
  batch.log = probe.folder / "log";
  std::string cache = profile.cache.empty() ? "" : fs::absolute(profile.cache).string();
  batch.command = {batch_shell(),
                   "-c",
                   kScript,
                   "probe",
                   probe.folder,
                   probe.token,
                   std::move(cache),
                   profile.scratch,
                   (probe.folder / "dlflow").string(),
                   std::to_string(probe.ranks),
                   profile.launcher.program};
  const auto& arguments = profile.launcher.arguments;
  batch.command.insert(batch.command.end(), arguments.begin(), arguments.end());
  const bool srun = fs::path(profile.launcher.program).filename() == "srun";
  batch.command.insert(batch.command.end(), {srun ? "-n" : "-np", std::to_string(probe.ranks)});
  return batch;
}

std::vector<Finding> read_probe(const std::optional<std::string>& text, const Probe& probe,
                                const Profile& profile, const BatchJob& job, Time now) {
  Values values = text ? read_values(*text) : Values();
  if (!values.contains("end")) return without_result(probe, profile, job);
  Findings findings(std::move(values), profile);
  const std::string runs = "the folder of runs, " + probe.folder.parent_path().string() + ", ";
  findings.add(true, runs + "is shared and writable", "", "");
  findings.add_folders();
  findings.add_clock(probe.made, now);
  findings.add_self_query(probe.self_query);
  findings.add_programs();
  findings.add_step_programs(probe.release_runtime);
  findings.add_environments(probe.environments);
  findings.add_container();
  findings.add_launcher(probe.ranks);
  findings.add_meeting();
  return findings.take();
}

}  // namespace dlflow
