#include "engine/init/script.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "base/text.h"
#include "engine/init/init.h"
#include "engine/init/python_text.h"
#include "engine/model/python_modules.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

/// std::regex recurses: longer lines, which are data, could overflow the stack.
constexpr size_t kLongestLine = 4000;

/// The folder that a script with an option for it gets.
constexpr const char* kOutputFolder = "out";

struct Framework {
  const char* name;
  bool takes_ranks;
  const char* sign;
};

/// A framework that uses another one comes before it.
constexpr std::array kFrameworks = {
    Framework{"Lightning", false, R"((import|from) (pytorch_)?lightning)"},
    Framework{"the HF Trainer", true, R"(\b(Seq2Seq)?TrainingArguments\b)"},
    Framework{"accelerate", true, R"(\bAccelerator\()"},
    Framework{"torch.distributed", true, R"(\binit_process_group\()"},
    Framework{"Keras", false, R"((import|from) (tensorflow\.)?keras|tf\.keras)"}};

/// A call that saves checkpoints.
struct SavingCall {
  const char *framework, *function, *argument;  ///< framework "": any; function "": no call
  size_t index = 0;                             ///< position of the argument
  const char* below = "";                       ///< pattern below the folder that it names
};

constexpr std::array kSavingCalls = {
    SavingCall{"the HF Trainer", "TrainingArguments", "output_dir", 0, "/checkpoint-*"},
    SavingCall{"the HF Trainer", "Seq2SeqTrainingArguments", "output_dir", 0, "/checkpoint-*"},
    SavingCall{"Lightning", "ModelCheckpoint", "dirpath", 0, "/*.ckpt"},
    SavingCall{"Keras", "BackupAndRestore", "backup_dir", 0, "/*"},
    SavingCall{"Keras", "ModelCheckpoint", "filepath"},
    SavingCall{"accelerate", "save_state", "output_dir"},
    SavingCall{"", "torch.save", "f", 1},
    SavingCall{"the HF Trainer", "", "", 0, "/checkpoint-*"},
    SavingCall{"Lightning", "", "", 0, "lightning_logs/version_*/checkpoints/*.ckpt"}};

/// The program that runs a script, with its options.
Words interpreter_of(const fs::path& script) {
  if (script.extension() == ".py") return {"python3"};
  std::ifstream stream(script, std::ios::binary);
  std::string line;
  std::getline(stream, line);
  line.resize(std::min(line.size(), kLongestLine));
  // `env` is kept if it sets variables.
  const std::regex shebang(R"(^#!\s*((\S*/)?env\s+(-S\s+)?(?!-|\S*=))?(\S.*))");
  std::smatch found;
  if (std::regex_search(line, found, shebang)) {
    std::istringstream words(found[4]);
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {script.extension() == ".sh" ? "sh" : "python3"};
}

bool finds(const std::string& text, const std::string& pattern) {
  return std::regex_search(text, std::regex(pattern));
}

/// The first of `names` that is an option of the script, as "--output_dir"; or empty.
std::string option_called(const std::string& text, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::string word = std::regex_replace(name, std::regex("_"), "[-_]");
    std::smatch found;
    const std::regex option(R"(\b(add_argument|option)\([^#\n]*?["'](--)" + word + R"()["'])");
    if (std::regex_search(text, found, option)) return found[2];
  }
  return "";
}

/// path_pattern() of an argument, for each call of `function`.
Words paths_of_calls(const std::string& text, const char* function, const char* name,
                     size_t index = 0) {
  Words paths;
  for (const std::string& call : calls_of(text, function)) {
    paths.push_back(path_pattern(argument(call, name, index), text));
  }
  return paths;
}

/// Replaces an unknown folder by the folder that the option sets. Returns "" if the script has no
/// such option, or if a shell would change the path.
std::string placed(const std::string& path, bool has_option) {
  if (path.find_first_of(" '\"$()&;|<>`\\") != path.npos) return "";
  const std::string first = path.substr(0, path.find('/'));
  if (!first.empty() && first.find('*') == first.npos) return path;
  if (!has_option) return "";
  const bool is_folder = first.empty() || first == "*";  // the folder that the option sets
  const std::string rest = is_folder ? path.substr(std::min(first.size() + 1, path.size())) : path;
  return std::string(kOutputFolder) + "/" + (rest.empty() ? "*" : rest);
}

/// Whether the script loads its checkpoints in `folder` without an option.
bool goes_on_by_itself(const std::string& text, const fs::path& folder) {
  if (finds(text, R"(get_last_checkpoint\(|BackupAndRestore\(|ckpt_path ?= ?["']last)"))
    return true;
  for (const char* function : {"torch.load", "load_model", "load_weights", "load_state"}) {
    for (const fs::path path : paths_of_calls(text, function, "f")) {
      if (!path.empty() && path.parent_path() == folder) return true;
    }
  }
  return false;
}

/// Finds checkpoints from which the script can go on, and other files that it saves.
void find_saved(const std::string& text, bool has_folder, bool has_resume, ScriptTraits& traits) {
  Words paths;
  for (const SavingCall& saving : kSavingCalls) {
    if (*saving.framework != '\0' && saving.framework != traits.framework) continue;
    if (*saving.function == '\0') {
      paths.emplace_back(saving.below);
      continue;
    }
    for (const std::string& path :
         paths_of_calls(text, saving.function, saving.argument, saving.index)) {
      paths.push_back(path + saving.below);
    }
  }
  for (const std::string& path : paths) {
    const std::string place = placed(path, has_folder);
    const bool goes_on = place.find('/') != place.npos &&
                         (has_resume || goes_on_by_itself(text, fs::path(path).parent_path()));
    if (goes_on && traits.newer.empty()) traits.newer = place;
    const bool is_file = !path.empty() && path.find('*') == path.npos;
    if (!goes_on && place == path && is_file) traits.saved.push_back(path);
  }
  for (const std::string& path : paths_of_calls(text, "save_pretrained", "save_directory")) {
    if (!placed(path, false).empty()) traits.saved.push_back(path);
  }
}

/// "venv: FOLDER": the active environment of Python packages, or one beside the script.
std::string packages_of(const InitRequest& request) {
  for (const auto& [variable, key] :
       {std::pair("VIRTUAL_ENV", "venv: "), std::pair("CONDA_PREFIX", "conda: ")}) {
    const std::string folder = environment_variable(variable);
    if (fs::is_directory(folder)) return key + yaml_quote(folder);
  }
  for (const char* name : {".venv", "venv"}) {
    const fs::path folder = request.source.parent_path() / name;
    if (!fs::exists(folder / "pyvenv.cfg")) continue;
    return "venv: " + yaml_quote(named_by_workflow(folder, request.workflow));
  }
  return "";
}

/// The path of the script in the workflow. Throws Error{InvalidInput} if it is not below the
/// workflow's folder.
std::string script_of_workflow(const InitRequest& request) {
  const std::string path = named_by_workflow(request.source, request.workflow);
  if (!path.starts_with("/")) return path;
  const std::string source = request.source.string();
  const std::string beside = request.source.parent_path() / (request.name + ".yaml");
  throw Error(
      Errc::InvalidInput,
      source + " is outside of the folder of " + request.workflow.string() +
          ", but a workflow reads only files below its own folder; write it there: dlflow init " +
          shell_quote(source) + " -o " + shell_quote(beside));
}

}  // namespace

ScriptTraits traits_of_script(const std::string& raw) {
  constexpr size_t kNone = std::string::npos;
  std::string text;
  for (const std::string& line : split(raw, '\n')) {
    const bool is_comment = trim(line).starts_with("#");
    if (!is_comment && line.size() <= kLongestLine) text += line + "\n";
  }
  ScriptTraits traits;
  for (const Framework& framework : kFrameworks) {
    if (!traits.framework.empty() || !finds(text, framework.sign)) continue;
    traits.framework = framework.name;
    traits.takes_ranks = framework.takes_ranks;
  }
  for (const std::string& call : calls_of(text, "Trainer")) {
    const int devices = number_from<int>(argument(call, "devices", kNone)).value_or(1);
    if (traits.framework != "Lightning" || devices < 2) continue;
    traits.ranks_per_node = devices;
    traits.nodes = number_from<int>(argument(call, "num_nodes", kNone)).value_or(1);
  }
  std::string folder = option_called(
      text, {"output_dir", "out_dir", "checkpoint_dir", "ckpt_dir", "save_dir", "output"});
  Words resumes = {"resume_from_checkpoint", "resume_from", "resume", "ckpt_path"};
  if (finds(text, R"(load\w*\(\s*\w+\.checkpoint\b)")) resumes.emplace_back("checkpoint");
  std::string resume = option_called(text, resumes);
  if (traits.framework == "the HF Trainer" && finds(text, "HfArgumentParser")) {
    folder = "--output_dir";
    if (finds(text, "resume_from_checkpoint")) resume = "--resume_from_checkpoint";
  }
  find_saved(text, !folder.empty(), !resume.empty(), traits);
  if (!folder.empty() && traits.newer.starts_with(kOutputFolder + std::string("/"))) {
    traits.options = {folder, kOutputFolder};
  }
  if (traits.newer.empty() || resume.empty()) return traits;
  const bool is_flag = finds(text, "[\"']" + resume + R"(["'][^)\n]*(store_true|is_flag))");
  traits.resume = resume + (is_flag ? "" : " \"$last\"");
  return traits;
}

std::string run_of_script(const ScriptTraits& traits, const Words& command) {
  Words words = command;
  words.insert(words.end(), traits.options.begin(), traits.options.end());
  for (std::string& word : words) {
    word = traits.resume.empty() ? yaml_word(word) : shell_quote(word);
  }
  if (traits.resume.empty()) return "[" + join(words, ", ") + "]";
  return "|\n      last=$(ls -dt " + traits.newer +
         " 2>/dev/null | head -n 1) || true  # none in the first pass\n      " + join(words, " ") +
         " ${last:+" + traits.resume + "}";
}

std::vector<InitFile> init_script(const InitRequest& request) {
  const std::string path = script_of_workflow(request);
  Words inputs = {path}, command = interpreter_of(request.source);
  command.push_back(path);
  std::string python;
  if (request.source.extension() == ".py") {
    python = read_file(request.source);
    for (const PythonModule& module : python_modules(request.source)) {
      const fs::path file = request.source.parent_path() / module.path;
      inputs.push_back((fs::path(path).parent_path() / module.path).string());
      if (file.extension() == ".py") python += "\n" + read_file(file);
    }
  }
  const ScriptTraits traits = traits_of_script(python);
  if (!request.data.empty()) inputs.push_back(fs::absolute(request.data).lexically_normal());
  const std::string walltime = request.walltime_or_hour();
  std::string ranks = traits.takes_ranks ? "ranks: \"${{ params.ranks }}\"" : "";
  if (traits.ranks_per_node > 0) {
    ranks = "nodes: " + std::to_string(traits.nodes) +
            ", ranks_per_node: " + std::to_string(traits.ranks_per_node);
  }
  Words saved;
  for (const std::string& file : traits.saved) {
    saved.push_back(file + "; to keep it: `outputs: {" + as_name(fs::path(file).stem()) + ": " +
                    yaml_quote(file) + "}`");
  }
  const std::string workflow = yaml_lines(
      {{kHead, request.name},
       {"params: {ranks: 1}", "", traits.takes_ranks},
       {"steps:\n  @:", as_name(request.source.stem())},
       {"    # Recognised @: `dlflow run " + request.workflow.string() +
            " --set ranks=4` starts four ranks",
        traits.framework, traits.takes_ranks},
       {"    # Recognised @", traits.framework, !traits.takes_ranks},
       {"    # Saves @", join(saved, "\n    # Saves ")},
       {"    # Saves @; continues " + (traits.resume.empty() ? "by itself" : "by " + traits.resume),
        traits.newer},
       {"    # It does not continue after its walltime; docs/user/python.md shows how to add that",
        "", !traits.framework.empty() && traits.newer.empty()},
       {"    run: @", run_of_script(traits, command)},
       {"@", yaml_inputs(inputs)},
       {"    env: {DATA: @}", yaml_quote(inputs.back()), !request.data.empty()},
       {"    environment: {@}", packages_of(request)},
       {"    checkpoint: {newer: @}\n    outputs: {checkpoints: checkpoints}",
        yaml_quote(traits.newer), !traits.newer.empty()},
       {"    resources: {@, cpus_per_rank: 1, walltime: " + walltime + "}", ranks},
       {"    resources: {cpus_per_rank: 1, walltime: @}  # ranks: 2 starts it on two ranks",
        walltime, ranks.empty()},
       {"    # Numbers that it writes to $DLFLOW_SUMMARY, as {\"accuracy\": 0.9}, are in `dlflow "
        "results`."},
       {"    # To keep a file that it writes to $DLFLOW_OUTPUTS, name it: outputs: {model: "
        "model.pt}",
        "", traits.newer.empty() && traits.saved.empty()}});
  return {{request.workflow, workflow}};
}

}  // namespace dlflow
