#include "engine/init/script.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>

#include "base/file.h"
#include "base/text.h"
#include "engine/init/init.h"
#include "engine/init/python_text.h"
#include "engine/init/workflow_text.h"
#include "engine/model/python_modules.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr size_t kNone = std::string::npos;

/// The standard's regular expressions recurse: longer lines, which are data, could overflow the
/// stack.
constexpr size_t kLongestLine = 4000;

/// Where a script writes that has an option for it.
constexpr const char* kFolder = "out";

/// The words of the first line, if it is "#!/bin/bash -e" or "#!/usr/bin/env bash".
Words words_of_shebang(const fs::path& script) {
  std::ifstream stream(script, std::ios::binary);
  std::string line;
  if (!std::getline(stream, line) || !line.starts_with("#!")) return {};
  Words words;
  std::istringstream rest(line.substr(2));
  for (std::string word; rest >> word;) words.push_back(word);
  if (words.size() < 2 || fs::path(words[0]).filename() != "env") return words;
  if (words[1] == "-S") words.erase(words.begin() + 1);
  const bool is_program =
      words.size() > 1 && !words[1].starts_with("-") && words[1].find('=') == std::string::npos;
  if (is_program) words.erase(words.begin());
  return words;
}

/// The program that runs a script, with its options.
Words interpreter_of(const fs::path& script) {
  if (script.extension() == ".py") return {"python3"};
  Words words = words_of_shebang(script);
  if (words.empty()) words = {script.extension() == ".sh" ? "sh" : "python3"};
  return words;
}

struct Framework {
  const char* name;
  bool takes_ranks;
  const char* sign;
};

/// Those that stand on others come first.
constexpr std::array kFrameworks = {
    Framework{"Lightning", false, R"((import|from) (pytorch_)?lightning)"},
    Framework{"the HF Trainer", true, R"(\b(Seq2Seq)?TrainingArguments\b)"},
    Framework{"accelerate", true, R"(\bAccelerator\()"},
    Framework{"torch.distributed", true, R"(\binit_process_group\()"},
    Framework{"Keras", false, R"((import|from) (tensorflow\.)?keras|tf\.keras)"}};

/// How checkpoints are saved.
struct SavingCall {
  const char *framework, *function, *argument;  ///< "": any framework
  size_t index;                                 ///< of the argument
  const char* below;                            ///< the folder that it names
};

constexpr std::array kSavingCalls = {
    SavingCall{"the HF Trainer", "TrainingArguments", "output_dir", 0, "/checkpoint-*"},
    SavingCall{"the HF Trainer", "Seq2SeqTrainingArguments", "output_dir", 0, "/checkpoint-*"},
    SavingCall{"Lightning", "ModelCheckpoint", "dirpath", 0, "/*.ckpt"},
    SavingCall{"Keras", "BackupAndRestore", "backup_dir", 0, "/*"},
    SavingCall{"Keras", "ModelCheckpoint", "filepath", 0, ""},
    SavingCall{"accelerate", "save_state", "output_dir", 0, ""},
    SavingCall{"", "torch.save", "f", 1, ""}};

bool finds(const std::string& text, const std::string& pattern) {
  return std::regex_search(text, std::regex(pattern));
}

/// "--output_dir" of the first of `names` that the command line has as an option.
std::string option_called(const std::string& text, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::string word = std::regex_replace(name, std::regex("_"), "[-_]");
    std::smatch found;
    const std::regex option(R"(\b(add_argument|option)\([^#\n]*?["'](--)" + word + R"()["'])");
    if (std::regex_search(text, found, option)) return found[2];
  }
  return "";
}

/// The paths of checkpoints, an unknown folder as path_pattern() has it.
Words saved_paths(const std::string& text, const std::string& framework) {
  Words paths;
  for (const SavingCall& saving : kSavingCalls) {
    if (*saving.framework != '\0' && saving.framework != framework) continue;
    for (const std::string& call : calls_of(text, saving.function)) {
      paths.push_back(path_pattern(argument(call, saving.argument, saving.index), text) +
                      saving.below);
    }
  }
  if (framework == "the HF Trainer") paths.emplace_back("/checkpoint-*");
  if (framework == "Lightning") paths.emplace_back("lightning_logs/version_*/checkpoints/*.ckpt");
  return paths;
}

/// Where `path` lies: what is below an unknown folder lies where the option says, if there is one.
/// Empty if nobody knows, or if a shell would take it for something else.
std::string placed(const std::string& path, bool has_option) {
  if (path.find_first_of(" '\"$()&;|<>`\\") != path.npos) return "";
  const std::string first = path.substr(0, path.find('/'));
  if (!first.empty() && first.find('*') == first.npos) return path;
  if (!has_option) return "";
  const bool is_folder = first.empty() || first == "*";  // that of the option
  const std::string rest = is_folder ? path.substr(std::min(first.size() + 1, path.size())) : path;
  return std::string(kFolder) + "/" + (rest.empty() ? "*" : rest);
}

/// Whether the script loads what it saves in `folder` without being told.
bool goes_on_by_itself(const std::string& text, const fs::path& folder) {
  if (finds(text, R"(get_last_checkpoint\(|BackupAndRestore\(|ckpt_path ?= ?["']last)"))
    return true;
  for (const char* function : {"torch.load", "load_model", "load_weights", "load_state"}) {
    for (const std::string& call : calls_of(text, function)) {
      const fs::path path = path_pattern(argument(call, "f", 0), text);
      if (!path.empty() && path.parent_path() == folder) return true;
    }
  }
  return false;
}

/// `environment:` with the packages of Python that the user has loaded, or that lie beside the
/// script; or nothing.
std::string packages_of(const InitRequest& request) {
  for (const auto& [variable, key] :
       {std::pair("VIRTUAL_ENV", "venv"), std::pair("CONDA_PREFIX", "conda")}) {
    const char* const folder = std::getenv(variable);
    if (folder == nullptr || !fs::is_directory(folder)) continue;
    return "    environment: {" + std::string(key) + ": " + yaml_quote(folder) + "}\n";
  }
  for (const char* name : {".venv", "venv"}) {
    const fs::path folder = request.source.parent_path() / name;
    if (!fs::exists(folder / "pyvenv.cfg")) continue;
    return "    environment: {venv: " + yaml_quote(named_by_workflow(folder, request.workflow)) +
           "}\n";
  }
  return "";
}

std::string resources_of(const ScriptTraits& traits, const std::string& walltime) {
  std::string ranks;
  if (traits.takes_ranks) ranks = "ranks: \"${{ params.ranks }}\", ";
  if (traits.ranks_per_node > 0) {
    ranks = "nodes: " + std::to_string(traits.nodes) +
            ", ranks_per_node: " + std::to_string(traits.ranks_per_node) + ", ";
  }
  return "    resources: {" + ranks + "cpus_per_rank: 1, walltime: " + walltime + "}" +
         (ranks.empty() ? "  # ranks: 2 starts it on two ranks" : "") + "\n";
}

std::string comments_of(const ScriptTraits& traits, const std::string& workflow) {
  std::string text;
  if (!traits.framework.empty()) text += "    # Recognised " + traits.framework;
  if (traits.takes_ranks) text += ": `dlflow run " + workflow + " --set ranks=4` starts four ranks";
  if (!text.empty()) text += "\n";
  for (const std::string& path : traits.saved) {
    text += "    # Saves " + path + "; to keep it: `outputs: {" +
            as_name(fs::path(path).stem().string()) + ": " + yaml_quote(path) + "}`\n";
  }
  if (!traits.newer.empty()) {
    text += "    # Saves " + traits.newer + "; goes on " +
            (traits.resume.empty() ? "by itself" : "by " + traits.resume) + "\n";
  } else if (!traits.framework.empty()) {
    text +=
        "    # It does not go on after its walltime; docs/user/python.md says how to add that\n";
  }
  return text;
}

}  // namespace

ScriptTraits traits_of_script(const std::string& raw) {
  std::string text;
  for (const std::string& line : split(raw, '\n')) {
    const bool is_comment = trim(line).starts_with("#");
    if (!is_comment && line.size() <= kLongestLine) text += line + "\n";
  }
  ScriptTraits traits;
  for (const Framework& framework : kFrameworks) {
    if (!finds(text, framework.sign)) continue;
    traits.framework = framework.name;
    traits.takes_ranks = framework.takes_ranks;
    break;
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
  for (const std::string& path : saved_paths(text, traits.framework)) {
    const std::string place = placed(path, !folder.empty());
    const bool goes_on = place.find('/') != place.npos &&
                         (!resume.empty() || goes_on_by_itself(text, fs::path(path).parent_path()));
    if (goes_on && traits.newer.empty()) traits.newer = place;
    if (!goes_on && place == path && path.find('*') == path.npos) traits.saved.push_back(path);
  }
  for (const std::string& call : calls_of(text, "save_pretrained")) {
    const std::string place =
        placed(path_pattern(argument(call, "save_directory", 0), text), false);
    if (!place.empty()) traits.saved.push_back(place);
  }
  if (!folder.empty() && traits.newer.starts_with(std::string(kFolder) + "/")) {
    traits.options = {folder, kFolder};
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
  std::string data;
  if (!request.data.empty()) {
    inputs.push_back(fs::absolute(request.data).lexically_normal().string());
    data = "    env: {DATA: " + yaml_quote(inputs.back()) + "}\n";
  }
  std::string text = head_of_workflow(request.name);
  if (traits.takes_ranks) text += "params: {ranks: 1}\n";
  text += "steps:\n  " + as_name(request.source.stem().string()) + ":\n" +
          comments_of(traits, request.workflow.string()) +
          "    run: " + run_of_script(traits, command) + "\n" + yaml_inputs(inputs) + data +
          packages_of(request);
  if (!traits.newer.empty()) {
    text += "    checkpoint: {newer: " + yaml_quote(traits.newer) +
            "}\n    outputs: {checkpoints: checkpoints}\n";
  }
  text += resources_of(traits, request.walltime_or_hour()) +
          "    # Numbers that it writes to $DLFLOW_SUMMARY, as {\"accuracy\": 0.9}, are in `dlflow "
          "results`.\n";
  if (!traits.newer.empty() || !traits.saved.empty()) return {{request.workflow, text}};
  return {{request.workflow,
           text + "    # Files that it writes to $DLFLOW_OUTPUTS are kept; name them: outputs: "
                  "{model: model.pt}\n"}};
}

}  // namespace dlflow
