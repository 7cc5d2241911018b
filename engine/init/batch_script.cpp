#include "engine/init/batch_script.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <regex>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/init/init.h"
#include "engine/model/parse.h"
#include "engine/model/unlisted_files.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

const std::map<std::string, std::string> kLongNames = {
    {"n", "ntasks"},    {"N", "nodes"},   {"c", "cpus-per-task"}, {"t", "time"},
    {"J", "job-name"},  {"a", "array"},   {"d", "dependency"},    {"G", "gpus"},
    {"p", "partition"}, {"A", "account"}, {"q", "qos"},           {"C", "constraint"},
    {"o", "output"},    {"e", "error"}};

/// Options that become keys of the step, and those of the log, which dlflow keeps itself.
constexpr const char* kTaken =
    "ntasks(-per-node)?|nodes|cpus-per-task|mem(-per-cpu)?|time|gres|gpus(-per-(node|task))?|array|"
    "dependency|output|error|job-name";

/// Lines that become a key of `environment:`. Lines without a key are left out: dlflow sets the
/// variables of ranks, and starts in the right folder.
constexpr std::array<std::pair<const char*, const char*>, 4> kLines = {
    {{"modules", R"((?:module +(?:load|add)|ml) +(.+))"},
     {"venv", R"re((?:source|\.) +"?(.+)/bin/activate"?)re"},
     {"conda", R"((?:conda|source|mamba) +activate +(.+))"},
     {"", R"(module +purge.*|cd +"?\$\{?SLURM_SUBMIT_DIR\}?"?/?|.*scontrol +show +hostname.*|)"
          R"((export +)?(MASTER_ADDR|MASTER_PORT|WORLD_SIZE|RANK|LOCAL_RANK)=.*|)"
          R"(.*conda\.sh"?|eval .*conda.*)"}}};

/// Variables of sbatch, and the variables of a step that replace them.
constexpr std::array<std::pair<const char*, const char*>, 7> kVariables = {
    {{"SLURM_CPUS_PER_TASK", "$$DLFLOW_CPUS_PER_RANK"},
     {"SLURM_(?:NTASKS|NPROCS)", "$$DLFLOW_RANKS"},
     {"SLURM_(?:NNODES|JOB_NUM_NODES)", "$$DLFLOW_NODES"},
     {"SLURM_PROCID", "$$RANK"},
     {"SLURM_LOCALID", "$$LOCAL_RANK"},
     {"SLURM_(?:JOB_ID|JOBID|ARRAY_JOB_ID)", "$$DLFLOW_RUN"},
     {"SLURM_SUBMIT_DIR", "."}}};

constexpr const char* kLauncher =
    R"(^(((exec|time|[A-Z_]+=[^ ]*) +)*)(srun|mpirun|mpiexec)( +(-(n|np|N|c|t|p|w|G|x|H|-(mpi|bind-to|map-by|cpu-bind|hostfile)) +[^ ]+|-[a-z-]+ +[0-9][^ ]*|-[^ ]+))* +)";
constexpr const char* kTorchrunOptions =
    R"( *--(nnodes|nproc[-_]per[-_]node|rdzv[-_]\w+|node[-_]rank|master[-_]\w+)[= ][^ ]+)";

void read_options(const std::string& line, std::map<std::string, std::string>& options) {
  const std::regex option(R"(\s-(-[a-z-]+|[a-zA-Z])(?:[= ]*(?!-)([^ ]+))?)");
  const std::string text = std::regex_replace(line, std::regex(R"(\s#.*)"), "").substr(7);
  for (std::sregex_iterator at(text.begin(), text.end(), option), end; at != end; ++at) {
    std::string name = (*at)[1], value = (*at)[2];
    if (kLongNames.contains(name)) name = kLongNames.at(name);
    if (name.starts_with("-")) name = name.substr(1);
    if (name == "gres" && !value.starts_with("gpu")) name = "gres=" + std::exchange(value, "");
    if (name == "gres" && std::isdigit(static_cast<unsigned char>(value.back())) == 0)
      value += ":1";
    options[name] = value;
  }
}

/// Stores what a line of kLines asks for. Returns false for other lines.
bool takes_line(const std::string& line, BatchScript& script) {
  for (const auto& [key, pattern] : kLines) {
    std::smatch found;
    if (!std::regex_match(line, found, std::regex(pattern))) continue;
    if (*key == '\0') {
      script.left_out.push_back(line);
    } else if (key == std::string_view("modules")) {
      for (const std::string& word : matches(found[1], "[^ ]+")) {
        script.modules.push_back(yaml_quote(word));
      }
    } else {
      const std::regex home(R"(^(~|\$HOME|\$\{HOME\})/)");
      script.packages = {key, yaml_quote(std::regex_replace(found[1].str(), home,
                                                            environment_variable("HOME") + "/"))};
    }
    return true;
  }
  return false;
}

/// The number of an option, "gpu:a100:4" -> 4; `otherwise` if it has no number.
int64_t number(const BatchScript& script, const char* name, int64_t otherwise) {
  const std::string text = script.option(name);
  std::smatch found;
  const bool is_number = std::regex_search(text, found, std::regex(R"((?:^|:)(\d{1,18})[^:]*$)"));
  return is_number ? std::stoll(found[1]) : otherwise;
}

/// "2-00:00:00", "90", "1:30:00" as sbatch reads them, rounded up to minutes; "" for UNLIMITED.
std::string walltime_of(const std::string& time) {
  const auto colons = std::ranges::count(time, ':');
  const bool has_hours = time.find('-') != time.npos || colons == 2;
  const std::string clock = has_hours ? time : "0:" + time + (colons == 0 ? ":0" : "");
  try {
    const auto minutes = std::chrono::ceil<std::chrono::minutes>(parse_duration(clock)).count();
    if (minutes == 0) return "";
    return minutes % 60 == 0 ? std::to_string(minutes / 60) + "h" : std::to_string(minutes) + "m";
  } catch (const Error&) {
    return "";
  }
}

/// "16G" times `factor`. A number without a unit is in MiB. Returns "" for 0.
std::string memory_of(const BatchScript& script, const char* name, int64_t factor) {
  const int64_t value = number(script, name, 0);
  if (value == 0) return "";
  const std::string size = script.option(name) + "M";
  const char unit = size[size.find_first_not_of("0123456789")];
  return std::to_string(value * factor) + char(std::toupper(static_cast<unsigned char>(unit))) +
         "iB";
}

std::string resources_of_batch(const BatchScript& script, const std::string& walltime,
                               bool has_torchrun) {
  const int64_t nodes = std::max<int64_t>(number(script, "nodes", 1), 1);
  int64_t per_node = number(script, "ntasks-per-node", number(script, "ntasks", nodes) / nodes);
  per_node = std::max<int64_t>(per_node, 1);
  int64_t cpus = number(script, "cpus-per-task", 1);
  const int64_t gpus =
      std::max({number(script, "gres", number(script, "gpus-per-node", 0)),
                number(script, "gpus", 0) / nodes, number(script, "gpus-per-task", 0) * per_node});
  if (has_torchrun && per_node == 1 && gpus > 1) {  // torchrun starts a rank for each GPU
    per_node = gpus;
    cpus = std::max<int64_t>(cpus / gpus, 1);
  }
  const bool has_ranks = per_node > 1 || has_torchrun || script.starts_ranks;
  const std::string time =
      script.options.contains("time") ? walltime_of(script.option("time")) : "1h";
  return yaml_pairs(
      {{"nodes", std::to_string(nodes), nodes > 1},
       {"ranks_per_node", std::to_string(per_node), nodes > 1},
       {"ranks", std::to_string(per_node), nodes == 1 && has_ranks},
       {"cpus_per_rank", std::to_string(cpus)},
       {"gpus_per_rank", std::to_string(std::max<int64_t>(gpus / per_node, 1)), gpus > 0},
       {"memory", memory_of(script, "mem", nodes)},
       {"memory_per_rank", memory_of(script, "mem-per-cpu", cpus)},
       {"walltime", walltime.empty() ? time : walltime}});
}

/// "0-9:3%2" -> one job for each number, two at a time. Returns "" without an array.
std::string matrix_of(const std::string& array) {
  if (array.empty()) return "";
  constexpr size_t kMostTasks = 10000;
  const Error bad(Errc::InvalidInput, "--array=" + array + " is not a list of at most " +
                                          std::to_string(kMostTasks) +
                                          " numbers; write 1-8, or 0,2,5");
  const size_t percent = std::min(array.find('%'), array.size());
  Words values;
  for (const std::string& part : split(array.substr(0, percent), ',')) {
    std::smatch range;
    std::regex_match(part, range, std::regex(R"((\d{1,9})(-(\d{1,9})(:(\d{1,9}))?)?)"));
    if (range.empty()) throw bad;
    const int64_t last = std::stoll(range[range[3].matched ? 3 : 1]);
    const int64_t step = range[5].matched ? std::max(std::stoll(range[5]), 1LL) : 1;
    for (int64_t i = std::stoll(range[1]); i <= last && values.size() <= kMostTasks; i += step) {
      values.push_back(std::to_string(i));
    }
  }
  if (values.size() > kMostTasks) throw bad;
  return yaml_pairs({{"task", "[" + join(values, ", ") + "]"},
                     {"max_parallel", percent == array.size() ? "" : array.substr(percent + 1)}});
}

/// The path after --out or a similar option, as a pattern: "out/model_*.pt"; else "model.pt".
std::string saved_path(const std::string& body) {
  std::smatch found;
  const std::regex option(R"re( --?(?:o|out|output|save)\b[\w-]*[= ]"?([\w.-][\w./${}-]*))re");
  if (!std::regex_search(body, found, option)) return "model.pt";
  return yaml_word(std::regex_replace(found[1].str(), std::regex(R"(\$\{?\w+\}?)"), "*"));
}

/// The files and folders that the body reads: unlisted_files(), and folders below the workflow's
/// that the body names, unless they have names of results.
Words inputs_of_batch(const BatchScript& script, const InitRequest& request) {
  const fs::path base = fs::absolute(request.workflow).parent_path();
  const std::regex written(".*(out|result|log|ckpt|checkpoint|run).*");
  Words inputs;
  for (const std::string& word : matches(script.body, R"([\w./-]+)")) {
    const fs::path path = fs::path(word).lexically_normal();
    const bool is_below = path.is_relative() && *path.begin() != ".." && *path.begin() != ".";
    if (!is_below || !fs::is_directory(base / path) || std::regex_match(word, written)) continue;
    inputs.push_back(path.string());
  }
  const std::string step = step_of_batch_script(script, "step", "1h", inputs);
  const auto parsed = parse_workflow_text("steps:\n" + step, request.workflow);
  if (const Workflow* const workflow = std::get_if<Workflow>(&parsed)) {
    for (const UnlistedFile& file : unlisted_files(workflow->steps.front(), base)) {
      inputs.push_back(file.name);
    }
  }
  return inputs;
}

}  // namespace

BatchScript read_batch_script(const std::string& text) {
  constexpr size_t kLongestCommand = 4000;  // regular expressions recurse
  BatchScript script;
  std::string joined = text;
  std::erase(joined, '\r');
  for (size_t at = 0; (at = joined.find("\\\n", at)) != joined.npos;) {
    const size_t next = std::min(joined.find_first_not_of(" \t\n", at + 1), joined.size());
    joined.replace(at, next - at, at > 0 && joined[at - 1] == ' ' ? "" : " ");
  }
  for (const std::string& raw : split(joined, '\n')) {
    if (raw.size() > kLongestCommand) {
      throw Error(Errc::InvalidInput, "a command has more than " + std::to_string(kLongestCommand) +
                                          " bytes; put its content into a file");
    }
    const std::string line(trim(raw));
    if (line.starts_with("#SBATCH")) read_options(line, script.options);
    if (line.starts_with("#") || (line.empty() && script.body.empty())) continue;
    if (takes_line(line, script)) continue;
    std::string command = std::regex_replace(line, std::regex(kLauncher), "$1");
    if (command != line && !std::exchange(script.starts_ranks, true)) {
      script.left_out.push_back(matches(line, "srun|mpirun|mpiexec").front());
    }
    if (command.find("torchrun") != command.npos) {
      command = std::regex_replace(command, std::regex(kTorchrunOptions), "");
    }
    const size_t indent = script.body.empty() || line.empty() ? 0 : raw.find_first_not_of(" \t");
    script.body += raw.substr(0, indent) + command + "\n";
  }
  script.body = trim(script.body);
  for (const auto& [variable, value] : kVariables) {
    const std::string name = variable;
    const std::regex use(R"(\$\{)" + name + R"((?::[^}]*)?\}|\$)" + name + R"(\b)");
    script.body = std::regex_replace(script.body, use, value);
  }
  return script;
}

std::string step_of_batch_script(const BatchScript& script, const std::string& name,
                                 const std::string& walltime, const Words& inputs) {
  const bool has_torchrun = script.body.find("torchrun") != script.body.npos;
  Words others, left_out = script.left_out;
  for (const auto& [option, value] : script.options) {
    if (option == "output" || option == "error") left_out.push_back("--" + option);
    if (std::regex_match(option, std::regex(kTaken))) continue;
    others.push_back("--" + option + (value.empty() ? "" : "=" + value));
  }
  return yaml_lines(
      {{"  @:", name},
       {"    # Not converted; a cluster's profile can set it: @", join(others, ", ")},
       {"    # --dependency=@: add that script as a step, and write `needs: [THAT]` here",
        script.option("dependency")},
       {"    # Left out, since dlflow does it: @",
        join(left_out, "\n    # Left out, since dlflow does it: ")},
       {"    # Check @: each rank runs it; make its job a step of its own, or write `launch: node`",
        join(matches(script.body, R"(\b(srun|mpirun|mpiexec|sbatch)\b)"), ", ")},
       {"    # Set only on a cluster: @",
        join(matches(script.body, R"(SLURM_(?!ARRAY_TASK_ID\b)\w+)"), ", ")},
       {"    run: |\n@",
        std::regex_replace(script.body, std::regex("(^|\n)(?=[^\n])"), "$1      ")},
       {"@", yaml_inputs(inputs)},
       {"    matrix: {@}  # --array\n    env: {SLURM_ARRAY_TASK_ID: \"${{ matrix.task }}\"}",
        matrix_of(script.option("array"))},
       {"    environment: {@}",
        yaml_pairs({{"modules", "[" + join(script.modules, ", ") + "]", !script.modules.empty()},
                    {script.packages.first, script.packages.second}})},
       {"    launch: node", "", has_torchrun},
       {"    resources: {@}", resources_of_batch(script, walltime, has_torchrun)},
       {"    # To keep a file that it writes, name it: outputs: {model: @}",
        saved_path(script.body)}});
}

std::vector<InitFile> init_batch_script(const InitRequest& request) {
  const BatchScript script = read_batch_script(read_file(request.source));
  if (script.body.empty()) {
    throw Error(Errc::InvalidInput, request.source.string() + " has no command to run; add one");
  }
  const std::string job = script.option("job-name");
  const std::string step = step_of_batch_script(script, as_name(job.empty() ? request.name : job),
                                                request.walltime, inputs_of_batch(script, request));
  return {{request.workflow, yaml_lines({{kHead, request.name}, {"steps:"}}) + step}};
}

}  // namespace dlflow
