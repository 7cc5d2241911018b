#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/output_file.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/cli/commands.h"
#include "engine/cli/usage.h"
#include "engine/cli/workflow_argument.h"
#include "engine/model/python_modules.h"
#include "runtime/data/dataset.h"
#include "runtime/data/split_files.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

struct InitArguments {
  std::string source;
  std::string data;
  std::string walltime;
  std::string output;
};

/// The purpose of the workflow.
struct InitPlan {
  std::string name;
  std::string script = {};  ///< to run; empty: a network is trained on `data`
  std::string path = {};    ///< of the script, or of the data set, as the workflow names it
  std::string data = {};    ///< may be empty with a script
  std::string walltime = "1h";
};

/// Asks on standard error; the answer is a line of standard input. `usual` is the answer of an
/// empty line, and of an input that has ended.
std::string ask(const Session& session, const std::string& question, const std::string& usual) {
  if (!session.quiet) {
    std::fprintf(stderr, "%s%s ", question.c_str(),
                 usual.empty() ? "" : (" [" + usual + "]").c_str());
  }
  std::string line;
  std::getline(std::cin, line);
  const std::string answer(trim(line));
  return answer.empty() ? usual : answer;
}

/// The scripts of this folder, those first that probably begin it all.
std::vector<std::string> scripts_here() {
  std::vector<std::string> scripts;
  for (const auto& entry : fs::directory_iterator(".")) {
    const std::string ending = entry.path().extension().string();
    if (entry.is_regular_file() && (ending == ".py" || ending == ".sh")) {
      scripts.push_back(entry.path().filename().string());
    }
  }
  const auto rank = [](const std::string& name) {
    if (name.starts_with("train")) return 0;
    if (name.starts_with("main") || name.starts_with("run")) return 1;
    return name.ends_with(".py") ? 2 : 3;
  };
  std::ranges::sort(scripts, [&rank](const std::string& a, const std::string& b) {
    return std::pair(rank(a), a) < std::pair(rank(b), b);
  });
  return scripts;
}

/// "my train" -> "my-train": a name for a workflow or a step. A word that YAML takes for something
/// else than text gets a prefix.
std::string as_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const bool good = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
    name += good ? c : '-';
  }
  const bool starts =
      !name.empty() && (std::isalpha(static_cast<unsigned char>(name[0])) != 0 || name[0] == '_');
  std::string lower = name;
  for (char& c : lower) c = char(std::tolower(static_cast<unsigned char>(c)));
  constexpr std::array<std::string_view, 9> kNoText = {"null", "true", "false", "yes", "no",
                                                       "on",   "off",  "y",     "n"};
  const bool is_text = std::ranges::find(kNoText, lower) == kNoText.end();
  return starts && is_text ? name : "w-" + name;
}

std::string yaml_quote(const std::string& text) { return Json(text).dump(); }

/// Quoted only if it is not plainly the name of a program.
std::string yaml_word(const std::string& word) {
  return as_name(word) == word ? word : yaml_quote(word);
}

/// The words of the first line, if it is "#!/bin/bash -e" or "#!/usr/bin/env bash".
std::vector<std::string> words_of_shebang(const std::string& script) {
  std::ifstream stream(script, std::ios::binary);
  std::string line;
  if (!std::getline(stream, line) || !line.starts_with("#!")) return {};
  std::vector<std::string> words;
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
std::vector<std::string> interpreter_of(const std::string& script) {
  if (script.ends_with(".py")) return {"python3"};
  std::vector<std::string> words = words_of_shebang(script);
  if (words.empty()) words = {script.ends_with(".sh") ? "sh" : "python3"};
  return words;
}

/// `path` as the workflow `file` names it; nothing if it lies outside of the workflow's folder.
std::optional<std::string> path_below(const fs::path& path, const fs::path& file) {
  fs::path named = fs::absolute(path).lexically_normal();
  if (!named.has_filename()) named = named.parent_path();  // "digits/"
  named = fs::weakly_canonical(named.parent_path()) / named.filename();
  const fs::path folder = fs::weakly_canonical(fs::absolute(file).parent_path());
  const fs::path below = named.lexically_relative(folder);
  if (below.empty() || below == "." || *below.begin() == "..") return std::nullopt;
  return below.string();
}

constexpr const char* kHead =
    "# Written by `dlflow init`. `dlflow schema` and docs/user/workflow-format.md have every "
    "key.\n";

/// The script, and what a Python script reads beside it.
std::vector<std::string> inputs_of(const InitPlan& plan) {
  std::vector<std::string> inputs = {plan.path};
  if (!plan.script.ends_with(".py")) return inputs;
  for (const PythonModule& module : python_modules(plan.script)) {
    inputs.push_back((fs::path(plan.path).parent_path() / module.path).string());
  }
  return inputs;
}

/// `environment:` with the packages of Python that the user has loaded, or nothing.
std::string packages_here() {
  for (const auto& [variable, key] :
       {std::pair("VIRTUAL_ENV", "venv"), std::pair("CONDA_PREFIX", "conda")}) {
    const char* const folder = std::getenv(variable);
    if (folder == nullptr || !fs::is_directory(folder)) continue;
    return "    environment: {" + std::string(key) + ": " + yaml_quote(folder) + "}\n";
  }
  return "";
}

/// A workflow that runs one script.
std::string script_workflow(const InitPlan& plan) {
  const std::string step = as_name(fs::path(plan.script).stem().string());
  std::string text = kHead;
  text += "name: " + plan.name + "\nsteps:\n  " + step + ":\n";
  text += "    run: [";
  for (const std::string& word : interpreter_of(plan.script)) text += yaml_word(word) + ", ";
  text += yaml_quote(plan.path) + "]\n";
  text += "    inputs:  # what it reads; a change of it runs the step again\n";
  for (const std::string& input : inputs_of(plan)) text += "      - " + yaml_quote(input) + "\n";
  if (!plan.data.empty()) {
    const std::string place = fs::absolute(plan.data).lexically_normal().string();
    text += "      - {path: " + yaml_quote(place) + "}  # read where it lies\n";
    text += "    env: {DATA: " + yaml_quote(place) + "}\n";
  }
  text += packages_here();
  text += "    resources: {cpus_per_rank: 1, walltime: " + plan.walltime +
          "}  # ranks: 2 starts it on two ranks\n";
  text +=
      "    # Numbers that it writes to $DLFLOW_SUMMARY, as {\"accuracy\": 0.9}, are in `dlflow "
      "results`.\n"
      "    # Files that it writes to $DLFLOW_OUTPUTS are kept; name them: outputs: {model: "
      "model.pt}\n";
  return text;
}

/// A data set for training, as a network sees it.
struct DataShape {
  std::vector<int64_t> input;
  size_t classes = 0, targets = 0;
  bool has_test = false;
};

DataShape shape_of(const fs::path& folder) {
  const auto train = runtime::find_split(folder, runtime::Split::Train);
  if (!train) {
    throw Error(Errc::InvalidInput,
                folder.string() + " holds no data set for training; `dlflow data pack " +
                    shell_quote(folder.string()) +
                    " -o data` makes one of a folder of pictures by class, and then `dlflow init "
                    "data`");
  }
  const runtime::Dataset dataset = runtime::read_split(*train, runtime::Proof::Structure);
  if (!dataset.tokenizer.empty()) {
    throw Error(Errc::InvalidInput, folder.string() +
                                        " holds tokens of text; begin with a copy of "
                                        "workflows/language-model.yaml");
  }
  if (dataset.has_masks) {
    throw Error(Errc::InvalidInput, folder.string() +
                                        " holds pictures with a class per pixel; begin with a copy "
                                        "of workflows/segmentation.yaml");
  }
  const runtime::ImageShape& shape = dataset.shape;
  return {{int64_t(shape.channels), int64_t(shape.height), int64_t(shape.width)},
          dataset.num_classes,
          dataset.num_targets,
          runtime::find_split(folder, runtime::Split::Test).has_value()};
}

std::string model_text(const std::string& name, const DataShape& shape) {
  return "# Written by `dlflow init`. docs/user/model-format.md has every layer.\nname: " + name +
         "\ninput: [" + std::to_string(shape.input[0]) + ", " + std::to_string(shape.input[1]) +
         ", " + std::to_string(shape.input[2]) +
         "]\nlayers:\n  - flatten\n  - linear: {features: 128}\n  - relu\n  - linear: {features: " +
         std::to_string(shape.targets > 0 ? shape.targets : shape.classes) + "}\n" +
         (shape.targets > 0 ? "loss: mse  # or l1, huber; bce for targets of 0 and 1\n" : "");
}

/// A workflow that trains a network on a data set and evaluates it.
std::string training_workflow(const InitPlan& plan, const std::string& model, bool has_test) {
  const std::string data = yaml_quote(plan.path);
  std::string text = kHead;
  text += "name: " + plan.name +
          "\nparams: {epochs: 5, lr: 0.05}\nsteps:\n  train:\n    uses: train\n    resources: "
          "{ranks: 1, walltime: " +
          plan.walltime + "}\n    with:\n      model: " + yaml_quote(model) +
          "\n      data: " + data +
          "\n      epochs: ${{ params.epochs }}\n      lr: ${{ params.lr }}\n    checkpoint: "
          "{every: 1 epoch, keep: 2}\n";
  if (!has_test) return text;
  return text +
         "  evaluate:\n    uses: evaluate\n    resources: {walltime: 10m}\n    with: {checkpoint: "
         "\"${{ steps.train.outputs.model }}\", data: " +
         data + "}\n";
}

/// The first question: a script, or data.
std::string ask_for_source(const Session& session) {
  const std::vector<std::string> scripts = scripts_here();
  if (!scripts.empty() && !session.quiet) {
    std::fprintf(stderr, "Scripts here: %s\n", join(scripts, ", ").c_str());
  }
  std::string source =
      ask(session, "What is to run: a script, or a folder with data to train a network on?",
          scripts.empty() ? "" : scripts.front());
  if (source.empty())
    throw UsageError("name a script, or a folder with data: dlflow init train.py");
  return source;
}

void write_new(const fs::path& file, const std::string& text) {
  if (fs::exists(file)) {
    throw Error(Errc::InvalidInput, file.string() +
                                        " is there already; remove it, or write "
                                        "another: dlflow init -o FILE");
  }
  write_output(file, text);
}

/// Makes the paths of `plan` those that the workflow `file` names. Steps read files below the
/// folder of their workflow; data may lie anywhere.
void name_for_workflow(InitPlan& plan, const fs::path& file) {
  if (plan.script.empty()) {
    const auto below = path_below(plan.data, file);
    plan.path = below ? *below : fs::absolute(plan.data).lexically_normal().string();
    return;
  }
  const auto below = path_below(plan.script, file);
  if (!below) {
    const fs::path beside = fs::path(plan.script).parent_path() / fs::path(plan.name + ".yaml");
    throw Error(Errc::InvalidInput,
                plan.script + " is outside of the folder of " + file.string() +
                    ", and a workflow reads what is below its own; write it there: dlflow init " +
                    shell_quote(plan.script) + " -o " + shell_quote(beside.string()));
  }
  plan.path = *below;
}

/// Writes the workflow and what belongs to it; the names of the files. If one of them is not right,
/// none of them stays.
std::vector<std::string> write_workflow(const InitPlan& plan, const fs::path& file) {
  std::vector<std::string> written;
  try {
    if (plan.script.empty()) {
      const DataShape shape = shape_of(plan.data);
      const fs::path model = file.parent_path() / (file.stem().string() + "-model.yaml");
      write_new(model, model_text(plan.name, shape));
      written.push_back(model.string());
      write_new(file, training_workflow(plan, model.filename().string(), shape.has_test));
    } else {
      write_new(file, script_workflow(plan));
    }
    written.insert(written.begin(), file.string());
    check_steps(WorkflowArgument{file.string(), {}}.read());
  } catch (...) {
    std::error_code ignored;
    for (const std::string& one : written) fs::remove(one, ignored);
    throw;
  }
  return written;
}

void init(Session& session, InitArguments arguments) {
  const bool asks = arguments.source.empty();
  if (asks) arguments.source = ask_for_source(session);
  if (!fs::exists(arguments.source)) {
    throw Error(Errc::NotFound, "there is no file or folder " + arguments.source +
                                    did_you_mean(arguments.source, scripts_here()));
  }
  InitPlan plan;
  const bool is_data = fs::is_directory(arguments.source);
  plan.name = as_name(fs::path(arguments.source).lexically_normal().stem().string());
  if (is_data) plan.data = arguments.source;
  if (!is_data) {
    plan.script = arguments.source;
    plan.data = arguments.data;
    if (asks && plan.data.empty()) {
      plan.data = ask(session, "Where is its data: a file or a folder? (empty: it has none)", "");
    }
    if (!plan.data.empty() && !fs::exists(plan.data)) {
      throw Error(Errc::NotFound, "there is no file or folder " + plan.data);
    }
  }
  if (!arguments.walltime.empty()) plan.walltime = arguments.walltime;
  if (asks && arguments.walltime.empty()) {
    plan.walltime = ask(session, "How long may it take at most?", plan.walltime);
  }
  parse_duration(plan.walltime);  // throws for a bad one
  const fs::path file = arguments.output.empty() ? plan.name + ".yaml" : arguments.output;
  name_for_workflow(plan, file);
  if (fs::exists(file)) write_new(file, "");  // throws before anything is written
  const std::vector<std::string> written = write_workflow(plan, file);
  if (session.json) return print_json({{"workflow", file.string()}, {"written", written}});
  std::printf("Wrote %s. Next:\n  dlflow run %s\n", join(written, " and ").c_str(),
              shell_quote(file.string()).c_str());
}

}  // namespace

void add_init(CLI::App& app, Session& session) {
  CLI::App* command =
      add_command(app, "init", "Write a first workflow, for a script or for a folder of data.", R"(
  dlflow init                       (asks three questions)
  dlflow init train.py --data /scratch/pictures --walltime 4h
  dlflow init digits                (a folder that `dlflow data pack` wrote))");
  const auto arguments = std::make_shared<InitArguments>();
  add_value(*command, "source", "SOURCE", arguments->source,
            "a script, or a folder with a data set");
  add_value(*command, "--data", "FOLDER", arguments->data,
            "the data that the script reads, as $DATA");
  add_value(*command, "--walltime", "TIME", arguments->walltime,
            "longest time that a job may take");
  add_output_option(*command, arguments->output, "the workflow; NAME.yaml unless given");
  add_json_option(*command, session);
  command->callback([arguments, &session] { init(session, *arguments); });
}

}  // namespace dlflow
