#include "engine/init/batch_script.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <regex>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "base/text.h"
#include "engine/init/init.h"
#include "engine/init/workflow_text.h"
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

/// Those that the step has, and those of the log, which dlflow keeps.
const std::set<std::string> kTaken = {"ntasks",        "nodes",         "ntasks-per-node",
                                      "cpus-per-task", "mem",           "mem-per-cpu",
                                      "time",          "gres",          "gpus",
                                      "array",         "gpus-per-node", "gpus-per-task",
                                      "dependency",    "output",        "error",
                                      "job-name"};

/// The variables of a step that replace those of sbatch.
const std::array<std::pair<const char*, const char*>, 7> kVariables = {
    {{"SLURM_CPUS_PER_TASK", "$DLFLOW_CPUS_PER_RANK"},
     {"SLURM_(NTASKS|NPROCS)", "$DLFLOW_RANKS"},
     {"SLURM_(NNODES|JOB_NUM_NODES)", "$DLFLOW_NODES"},
     {"SLURM_PROCID", "$RANK"},
     {"SLURM_LOCALID", "$LOCAL_RANK"},
     {"SLURM_(JOB_ID|JOBID|ARRAY_JOB_ID)", "$DLFLOW_RUN"},
     {"SLURM_SUBMIT_DIR", "."}}};

constexpr size_t kLongestCommand = 4000;

/// Lines that dlflow needs no more: it tells ranks their names, and starts in the right folder.
constexpr const char* kNeedless =
    R"(^(module +purge.*|cd +"?\$\{?SLURM_SUBMIT_DIR\}?"?/?|(export +)?(MASTER_ADDR|MASTER_PORT|WORLD_SIZE|RANK|LOCAL_RANK)=.*|.*scontrol +show +hostname.*|.*conda\.sh"?|eval .*conda.*)$)";
constexpr const char* kLauncher =
    R"(^(((exec|time|[A-Z_]+=[^ ]*) +)*)(srun|mpirun|mpiexec)( +(-(n|np|N|c|t|p|w|G|x|H|-(mpi|bind-to|map-by|cpu-bind|hostfile)) +[^ ]+|-[a-z-]+ +[0-9][^ ]*|-[^ ]+))* +)";
constexpr const char* kTorchrunOptions =
    R"( *--(nnodes|nproc[-_]per[-_]node|rdzv[-_]\w+|node[-_]rank|master[-_]\w+)[= ][^ ]+)";

void read_options(const std::string& line, std::map<std::string, std::string>& options) {
  const std::regex option(R"(\s-(-[a-z-]+|[a-zA-Z])(?:[= ]*(?!-)([^ ]+))?)");
  const std::string text = std::regex_replace(line, std::regex(R"(\s#.*)"), "").substr(7);
  for (std::sregex_iterator at(text.begin(), text.end(), option), end; at != end; ++at) {
    std::string name = (*at)[1], value = (*at)[2];
    const auto known = kLongNames.find(name);
    if (known != kLongNames.end()) name = known->second;
    if (name.starts_with("-")) name = name.substr(1);
    if (name == "gres" && !value.starts_with("gpu")) name = "gres=" + std::exchange(value, "");
    if (name == "gres" && std::isdigit(static_cast<unsigned char>(value.back())) == 0)
      value += ":1";
    options[name] = value;
  }
}

std::string replaced_variables(std::string body) {
  for (const auto& [variable, value] : kVariables) {
    const std::regex use(R"(\$\{)" + std::string(variable) + R"((:[^}]*)?\}|\$)" + variable +
                         R"(\b)");
    body = std::regex_replace(body, use, std::string(*value == '$' ? "$" : "") + value);
  }
  return body;
}

/// Takes what a line loads; false: it is a command.
bool takes_packages(const std::string& line, BatchScript& script) {
  std::smatch found;
  const bool loads = std::regex_match(line, found, std::regex(R"((module +(load|add)|ml) +(.+))"));
  if (loads) {
    for (const std::string& word : split(found[3].str(), ' ')) {
      if (!word.empty()) script.modules.push_back(word);
    }
  } else if (std::regex_match(line, found,
                              std::regex(R"re((source|\.) +"?(.+)/bin/activate"?)re"))) {
    const std::regex home(R"(^(~|\$HOME|\$\{HOME\})/)");
    script.packages = "venv: " + yaml_quote(std::regex_replace(found[2].str(), home,
                                                               environment_variable("HOME") + "/"));
  } else if (std::regex_match(line, found, std::regex(R"((conda|source|mamba) +activate +(.+))"))) {
    script.packages = "conda: " + yaml_quote(found[2]);
  }
  return !found.empty();
}

/// Numbers of an option: "gpu:a100:4" -> 4; `otherwise` where there is none.
int64_t number(const BatchScript& script, const std::string& name, int64_t otherwise) {
  const auto option = script.options.find(name);
  if (option == script.options.end()) return otherwise;
  const std::string& text = option->second;
  const size_t colon = text.rfind(':');
  const std::string last = colon == text.npos ? text : text.substr(colon + 1);
  return number_from<int64_t>(last.substr(0, last.find_first_not_of("0123456789")))
      .value_or(otherwise);
}

/// "2-00:00:00", "90", "1:30:00" as sbatch reads them, in minutes rounded up; "" of UNLIMITED.
std::string walltime_of(const std::string& time) {
  const size_t dash = time.find('-');
  const Words parts = split(time.substr(dash == time.npos ? 0 : dash + 1), ':');
  std::array<int64_t, 4> sizes = {};  // days, hours, minutes, seconds
  if (dash != time.npos) sizes[0] = number_from<int64_t>(time.substr(0, dash)).value_or(0);
  const size_t first = dash != time.npos || parts.size() == 3 ? 1 : 2;
  for (size_t i = 0; i < parts.size() && first + i < sizes.size(); ++i) {
    sizes[first + i] = number_from<int64_t>(parts[i]).value_or(0);
  }
  const int64_t minutes = ((sizes[0] * 24 + sizes[1]) * 60) + sizes[2] + (sizes[3] > 0 ? 1 : 0);
  if (minutes == 0) return "";
  return minutes % 60 == 0 ? std::to_string(minutes / 60) + "h" : std::to_string(minutes) + "m";
}

/// "16G" times `factor`; sbatch takes a number for MiB.
std::string memory_of(const std::string& size, int64_t factor) {
  const size_t digits = std::min(size.find_first_not_of("0123456789"), size.size());
  const int64_t value = number_from<int64_t>(size.substr(0, digits)).value_or(0) * factor;
  const std::string unit = digits == size.size() ? "M" : size.substr(digits, 1);
  return std::to_string(value) + char(std::toupper(static_cast<unsigned char>(unit[0]))) + "iB";
}

std::string resources_of_batch(const BatchScript& script, const std::string& walltime) {
  const bool has_torchrun = script.body.find("torchrun") != script.body.npos;
  const int64_t nodes = std::max<int64_t>(number(script, "nodes", 1), 1);
  int64_t per_node = number(script, "ntasks-per-node", number(script, "ntasks", nodes) / nodes);
  per_node = std::max<int64_t>(per_node, 1);
  int64_t cpus = number(script, "cpus-per-task", 1);
  int64_t gpus = number(script, "gres", number(script, "gpus-per-node", 0));
  gpus = std::max(
      {gpus, number(script, "gpus", 0) / nodes, number(script, "gpus-per-task", 0) * per_node});
  if (has_torchrun && per_node == 1 && gpus > 1) {  // which starts a rank for each GPU
    per_node = gpus;
    cpus = std::max<int64_t>(cpus / gpus, 1);
  }
  std::string text;
  const auto add = [&text](const std::string& key, const std::string& value) {
    text += (text.empty() ? "" : ", ") + key + ": " + value;
  };
  if (nodes > 1) add("nodes", std::to_string(nodes));
  if (nodes > 1) add("ranks_per_node", std::to_string(per_node));
  if (nodes == 1 && (per_node > 1 || has_torchrun || script.starts_ranks))
    add("ranks", std::to_string(per_node));
  add("cpus_per_rank", std::to_string(cpus));
  if (gpus > 0) add("gpus_per_rank", std::to_string(std::max<int64_t>(gpus / per_node, 1)));
  const auto option = [&](const char* name) {
    const auto found = script.options.find(name);
    return found == script.options.end() ? "" : found->second;
  };
  if (number(script, "mem", 0) > 0) add("memory", memory_of(option("mem"), nodes));
  if (number(script, "mem-per-cpu", 0) > 0)
    add("memory_per_rank", memory_of(option("mem-per-cpu"), cpus));
  const std::string time = script.options.contains("time") ? walltime_of(option("time")) : "1h";
  if (!walltime.empty() || !time.empty()) add("walltime", walltime.empty() ? time : walltime);
  return std::string(has_torchrun ? "    launch: node\n" : "") + "    resources: {" + text + "}\n";
}

constexpr size_t kMostTasks = 10000;

Error bad_array(const std::string& array) {
  return {Errc::InvalidInput, "--array=" + array + " is no list of at most " +
                                  std::to_string(kMostTasks) + " numbers; write 1-8, or 0,2,5"};
}

/// "0-9:3%2" -> one job for each number, two at a time.
std::string matrix_of(const std::string& array) {
  const size_t percent = array.find('%');
  Words values;
  for (const std::string& part : split(array.substr(0, percent), ',')) {
    std::smatch range;
    std::regex_match(part, range, std::regex(R"((\d{1,9})(-(\d{1,9})(:(\d{1,9}))?)?)"));
    if (range.empty()) throw bad_array(array);
    const int64_t last = std::stoll(range[range[3].matched ? 3 : 1]);
    const int64_t step = range[5].matched ? std::max(std::stoll(range[5]), 1LL) : 1;
    for (int64_t i = std::stoll(range[1]); i <= last && values.size() <= kMostTasks; i += step) {
      values.push_back(std::to_string(i));
    }
  }
  if (values.size() > kMostTasks) throw bad_array(array);
  const std::string most =
      percent == array.npos ? "" : ", max_parallel: " + array.substr(percent + 1);
  return "    matrix: {task: [" + join(values, ", ") + "]" + most + "}  # --array\n" +
         "    env: {SLURM_ARRAY_TASK_ID: \"${{ matrix.task }}\"}\n";
}

std::string comments_of_batch(const BatchScript& script) {
  std::string text;
  for (const auto& [name, value] : script.options) {
    if (kTaken.contains(name)) continue;
    text += (text.empty() ? "    # Not taken, but a cluster's profile may have it: --" : ", --") +
            name + (value.empty() ? "" : "=" + value);
  }
  if (!text.empty()) text += "\n";
  if (const auto other = script.options.find("dependency"); other != script.options.end()) {
    text += "    # --dependency=" + other->second +
            ": write that script as a step of this file, too, and here `needs: [THAT]`\n";
  }
  for (const std::string& line : script.left_out)
    text += "    # Left out, since dlflow does it: " + line + "\n";
  std::set<std::string> variables;
  const std::regex use(R"(SLURM_\w+)");
  for (std::sregex_iterator at(script.body.begin(), script.body.end(), use), end; at != end; ++at) {
    if (at->str() != "SLURM_ARRAY_TASK_ID") variables.insert(at->str());
  }
  if (!variables.empty())
    text +=
        "    # Set on a cluster alone: " + join(Words(variables.begin(), variables.end()), ", ") +
        "\n";
  return text;
}

/// Folders below `base` that the body names, but for those that it writes to.
Words folders_in(const std::string& body, const fs::path& base) {
  Words folders;
  const std::regex word(R"([\w./-]+)"), written(R"(.*(out|result|log|ckpt|checkpoint|run).*)");
  for (std::sregex_iterator at(body.begin(), body.end(), word), end; at != end; ++at) {
    const fs::path path = fs::path(at->str()).lexically_normal();
    const bool is_below = path.is_relative() && *path.begin() != ".." && *path.begin() != ".";
    if (!is_below || !fs::is_directory(base / path) || std::regex_match(at->str(), written))
      continue;
    if (std::ranges::find(folders, path.string()) == folders.end())
      folders.push_back(path.string());
  }
  return folders;
}

/// The files and folders that the body reads.
Words inputs_of_batch(const BatchScript& script, const InitRequest& request) {
  const fs::path base = fs::absolute(request.workflow).parent_path();
  Words inputs = folders_in(script.body, base);
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
  BatchScript script;
  std::string joined = text;
  std::erase(joined, '\r');
  for (size_t at = 0; (at = joined.find("\\\n", at)) != joined.npos;) {
    const size_t next = std::min(joined.find_first_not_of(" \t\n", at + 1), joined.size());
    joined.replace(at, next - at, at > 0 && joined[at - 1] == ' ' ? "" : " ");
  }
  for (const std::string& raw : split(joined, '\n')) {
    if (raw.size() > kLongestCommand) {  // regular expressions recurse
      throw Error(Errc::InvalidInput, "a command has more than " + std::to_string(kLongestCommand) +
                                          " bytes; put what it holds into a file");
    }
    const std::string line(trim(raw));
    if (line.starts_with("#SBATCH")) read_options(line, script.options);
    if (line.starts_with("#") || (line.empty() && script.body.empty())) continue;
    if (takes_packages(line, script)) continue;
    if (std::regex_match(line, std::regex(kNeedless))) {
      script.left_out.push_back(line);
      continue;
    }
    std::string command = std::regex_replace(line, std::regex(kLauncher), "$1");
    script.starts_ranks = script.starts_ranks || command != line;
    if (command.find("torchrun") != command.npos) {
      command = std::regex_replace(command, std::regex(kTorchrunOptions), "");
    }
    const size_t indent = script.body.empty() || line.empty() ? 0 : raw.find_first_not_of(" \t");
    script.body += raw.substr(0, indent) + command + "\n";
  }
  script.body = replaced_variables(std::string(trim(script.body)));
  return script;
}

std::string step_of_batch_script(const BatchScript& script, const std::string& name,
                                 const std::string& walltime, const Words& inputs) {
  std::string text = "  " + name + ":\n" + comments_of_batch(script) + "    run: |\n";
  for (const std::string& line : split(script.body, '\n')) {
    text += line.empty() ? "\n" : "      " + line + "\n";
  }
  text += yaml_inputs(inputs);
  if (const auto array = script.options.find("array"); array != script.options.end()) {
    text += matrix_of(array->second);
  }
  Words modules = script.modules, parts;
  for (std::string& module : modules) module = yaml_quote(module);
  if (!modules.empty()) parts.push_back("modules: [" + join(modules, ", ") + "]");
  if (!script.packages.empty()) parts.push_back(script.packages);
  if (!parts.empty()) text += "    environment: {" + join(parts, ", ") + "}\n";
  return text + resources_of_batch(script, walltime) +
         "    # Files that it leaves are kept if they are named: outputs: {model: model.pt}\n";
}

std::vector<InitFile> init_batch_script(const InitRequest& request) {
  const BatchScript script = read_batch_script(read_file(request.source));
  if (script.body.empty()) {
    throw Error(Errc::InvalidInput, request.source.string() + " has no command to run; add one");
  }
  const auto name = script.options.find("job-name");
  const std::string step = as_name(name == script.options.end() ? request.name : name->second);
  return {{request.workflow, head_of_workflow(request.name) + "steps:\n" +
                                 step_of_batch_script(script, step, request.walltime,
                                                      inputs_of_batch(script, request))}};
}

}  // namespace dlflow
