#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/local_files.h"
#include "base/text.h"
#include "engine/cli/warnings.h"
#include "engine/model/script_variables.h"
#include "engine/plan/fingerprint.h"

/// Words of commands that neither dlflow nor a shell can replace or find.
namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kParam = "DLFLOW_PARAM_";
constexpr std::string_view kMatrix = "DLFLOW_MATRIX_";

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
}

/// Calls `look` for each text in `value`.
template <typename Look>
void visit_texts(const Json& value, const Look& look) {
  if (value.is_string()) look(value.get_ref<const std::string&>());
  if (!value.is_structured()) return;
  for (const Json& part : value) visit_texts(part, look);
}

/// Finds the first "{{ params.lr }}" without a $ before it in `text`, from `at` on, and moves `at`
/// behind it. Returns "params.lr", or nothing if there is none.
std::optional<std::string> next_braces(const std::string& text, size_t& at) {
  while ((at = text.find("{{", at)) != text.npos) {
    const size_t begin = std::exchange(at, at + 2);
    const size_t end = text.find("}}", at);
    if (end == text.npos || (begin > 0 && text[begin - 1] == '$')) continue;
    const std::string_view inner = trim(std::string_view(text).substr(at, end - at));
    if (!inner.empty() && std::ranges::all_of(inner, is_word)) return std::string(inner);
  }
  return std::nullopt;
}

/// "lr" for "$lr" or "${lr}"; empty if `word` is anything else.
std::string variable_alone(const std::string& word) {
  if (!word.starts_with("$")) return "";
  const bool braced = word.starts_with("${") && word.ends_with("}");
  const std::string name = braced ? word.substr(2, word.size() - 3) : word.substr(1);
  const bool is_name = !name.empty() && std::ranges::all_of(name, is_word) &&
                       std::isdigit(static_cast<unsigned char>(name[0])) == 0;
  return is_name ? name : "";
}

/// The file that `command`, a list, runs and that must be an input: "fit.py" of [python3, fit.py].
/// Empty for programs in PATH, for absolute paths and for expressions.
std::string own_program(const Json& command) {
  constexpr std::array<std::string_view, 7> kInterpreters = {"python", "bash", "sh",  "Rscript",
                                                             "julia",  "perl", "node"};
  const auto word = [&](size_t i) {
    return i < command.size() && command[i].is_string() ? command[i].get<std::string>() : "";
  };
  std::string program = word(0);
  if (program.find('/') == program.npos) {
    std::string interpreter = program;
    while (!interpreter.empty() &&
           (std::isdigit(interpreter.back()) != 0 || interpreter.back() == '.')) {
      interpreter.pop_back();
    }
    const bool is_known = std::ranges::find(kInterpreters, interpreter) != kInterpreters.end();
    program = is_known && !word(1).starts_with("-") ? word(1) : "";
  }
  const bool is_own = !program.starts_with("/") && program.find('$') == program.npos;
  return is_own ? program : "";
}

class Looking {
 public:
  Looking(const Workflow& workflow, Diagnostics& warnings)
      : workflow_(workflow),
        warnings_(warnings),
        base_(fs::absolute(workflow.file).parent_path()) {}

  void look_at(const Step& step) {
    for (const auto& [key, part] : {std::pair("run", &step.run), std::pair("with", &step.with),
                                    std::pair("env", &step.environment)}) {
      visit_texts(part->source(),
                  [&, key = key](const std::string& text) { look_for_braces(step, key, text); });
    }
    look_at_axes(step);
    const Json& command = step.run.source();
    if (command.is_string()) {
      look_for_names(step, command.get_ref<const std::string&>());
      look_at_script(step, command.get_ref<const std::string&>());
    }
    if (command.is_array()) look_at_list(step, command);
    for (const std::string& need : step.needed_twice) {
      warn(step, "needs", "names " + need + " twice in `needs`; leave one out");
    }
  }

  /// Warns of parameters that no expression names, and no command or input by their variable.
  void look_at_params() {
    std::set<std::string> read;
    for (const Step& step : workflow_.steps) {
      const Json visible = visible_params(step, workflow_.params, texts_of(step));
      for (const auto& [name, value] : visible.items()) read.insert(name);
    }
    for (const auto& [name, value] : workflow_.params.items()) {
      if (read.contains(name) || is_in_expression(name)) continue;
      warnings_.push_back({workflow_.file, place_of(name),
                           "no step reads parameter '" + name + "'; write ${{ params." + name +
                               " }}, or $" + environment_name(kParam, name) + " in a script"});
    }
  }

 private:
  /// Warns of a kind of step whose elements would all do the same.
  void look_at_axes(const Step& step) {
    if (step.uses.empty()) return;
    for (const std::string& axis : axis_names(step.matrix)) {
      if (workflow_.text.find("matrix." + axis) != std::string::npos) continue;
      if (axis != "repeat") {
        warn(step, "matrix",
             "does the same for each value of axis '" + axis +
                 "', which nothing reads; write ${{ matrix." + axis + " }} in `with`");
      } else if (step.locations.contains("with.seed")) {
        warn(step, "repeat",
             "has one seed for all repetitions, which compute the same; leave "
             "with.seed out");
      }
    }
  }

  void warn(const Step& step, const std::string& key, const std::string& text) {
    warnings_.push_back(
        {workflow_.file, step.location_of(key), "step '" + step.name + "' " + text});
  }

  bool is_axis(const Step& step, const std::string& name) const {
    const auto axes = axis_names(step.matrix);
    return std::ranges::find(axes, name) != axes.end();
  }

  /// The full reference: "params.lr", also for "lr"; empty if no expression could name it.
  std::string meant_by(const Step& step, const std::string& name) const {
    for (const std::string_view scope : {"params.", "matrix.", "steps.", "run."}) {
      if (name.starts_with(scope)) return name;
    }
    if (workflow_.params.contains(name)) return "params." + name;
    return is_axis(step, name) ? "matrix." + name : "";
  }

  void look_for_braces(const Step& step, const char* key, const std::string& text) {
    size_t at = 0;
    while (const auto inner = next_braces(text, at)) {
      const std::string meant = meant_by(step, *inner);
      if (meant.empty()) continue;
      const bool is_script = key == std::string_view("run") && step.run.source().is_string();
      const bool is_param = meant.starts_with("params.");
      const auto prefix = is_param ? kParam : kMatrix;
      warn(step, key,
           "has {{ " + *inner + " }}, which is not replaced; write " +
               (is_script && (is_param || meant.starts_with("matrix."))
                    ? "\"$" + environment_name(prefix, meant.substr(7)) + "\""
                    : "${{ " + meant + " }}"));
    }
  }

  /// Warns of $DLFLOW_PARAM_… and $DLFLOW_MATRIX_… that are unset in a script.
  void look_for_names(const Step& step, const std::string& script) {
    std::vector<std::string> known;
    for (const auto& [name, value] : workflow_.params.items()) {
      known.push_back(environment_name(kParam, name));
    }
    for (const std::string& axis : axis_names(step.matrix)) {
      known.push_back(environment_name(kMatrix, axis));
      for (const std::string& key : axis_keys(step.matrix, axis)) {
        known.push_back(environment_name(kMatrix, axis + "_" + key));
      }
    }
    for (const std::string& name : variables_read(script)) {
      const bool is_axis =
          name.starts_with(kMatrix) && name.size() > kMatrix.size() && !has_open_axis(step.matrix);
      const bool is_one = name.starts_with(kParam) && name.size() > kParam.size();
      if (!(is_one || is_axis) || std::ranges::find(known, name) != known.end()) continue;
      warn(step, "run",
           "reads $" + name + ", but there is no such " + (is_axis ? "axis" : "parameter") +
               did_you_mean(name, known));
    }
  }

  /// Warns of lines that work in a batch system or a terminal, but not in a step.
  void look_at_script(const Step& step, const std::string& script) {
    if (script.find("#SBATCH") != script.npos) {
      warn(step, "run",
           "has #SBATCH lines, which nothing reads; write resources: {…} in the step (`dlflow init "
           "SCRIPT` does), and the rest into the cluster's profile");
    }
    if (trim(script).ends_with('&')) {
      warn(step, "run", "ends with &, so that it does not wait for its program; leave & out");
    }
    for (const std::string& line : split(script, '\n')) look_for_launcher(step, line);
  }

  /// Warns of programs that start ranks, since each rank would run them.
  void look_for_launcher(const Step& step, const std::string& line) {
    const Json& asked = step.resources.source();
    const bool has_ranks = asked.is_object() && asked.value("ranks", Json(1)) != 1;
    const std::string program(trim(line).substr(0, trim(line).find(' ')));
    constexpr std::array<std::string_view, 4> kLaunchers = {"mpirun", "mpiexec", "srun",
                                                            "torchrun"};
    if (!has_ranks || step.launch != Launch::Ranks ||
        std::ranges::find(kLaunchers, program) == kLaunchers.end()) {
      return;
    }
    warn(step, "run",
         "starts " + program + " on each of its ranks, which dlflow starts itself; leave " +
             program + " out, or write launch: node");
  }

  /// Warns of words that only a shell replaces, and of a whole command line in place of a program.
  void look_for_shell(const Step& step, const Json& command) {
    constexpr std::array<std::string_view, 7> kOperators = {"|",  "||", "&&",  ">",
                                                            ">>", "<",  "2>&1"};
    const std::string program = command[0].is_string() ? command[0].get<std::string>() : "";
    const bool is_line = program.find(' ') != program.npos && program.find("${{") == program.npos;
    if (is_line && !fs::exists(base_ / program)) {
      warn(step, "run",
           "runs a program named '" + program + "', spaces included; write run: [" +
               join(split(program, ' '), ", ") + "], or commands as one text: run: '…'");
    }
    look_for_launcher(step, program);
    for (const Json& word : command) {
      if (!word.is_string() ||
          std::ranges::find(kOperators, word.get<std::string>()) == kOperators.end())
        continue;
      warn(step, "run",
           "has '" + word.get<std::string>() +
               "' in a list, which no shell reads; write the command as one text: run: '…'");
    }
  }

  void look_at_list(const Step& step, const Json& command) {
    look_for_shell(step, command);
    for (const Json& word : command) {
      const std::string name = word.is_string() ? variable_alone(word.get<std::string>()) : "";
      if (name.empty()) continue;
      std::string meant = meant_by(step, name);
      for (const auto& [param, value] : workflow_.params.items()) {
        if (name == environment_name(kParam, param)) meant = "params." + param;
      }
      warn(step, "run",
           "has $" + name + " in a list, which no shell reads; write " +
               (meant.empty() ? "the command as one text: run: '…'" : "\"${{ " + meant + " }}\""));
    }
    const std::string program = own_program(command);
    std::error_code none;
    if (program.empty() || fs::exists(base_ / program, none)) return;
    std::vector<std::string> there;
    const fs::path folder = fs::path(program).parent_path();
    for (const auto& entry : fs::directory_iterator(base_ / folder, none)) {
      there.push_back((folder / entry.path().filename()).string());
    }
    warn(step, "run",
         "runs " + program + ", but there is no such file beside the workflow" +
             did_you_mean(program, there));
  }

  /// The content of the inputs, including the files in folders.
  std::vector<std::string> texts_of(const Step& step) const {
    constexpr uintmax_t kMostBytes = uintmax_t{1} << 20;  // largest script to read
    std::vector<std::string> texts;
    std::error_code none;
    for (const std::string& input : step.inputs) {
      std::vector<fs::path> files = {base_ / input};
      if (fs::is_directory(files.front(), none)) {
        for (const auto& entry : entries_below(files.front())) files.push_back(entry.path());
      }
      for (const fs::path& file : files) {
        const bool is_script = fs::is_regular_file(file, none) && fs::file_size(file) <= kMostBytes;
        if (is_script) texts.push_back(read_file_if_exists(file).value_or(""));
      }
    }
    return texts;
  }

  bool is_in_expression(const std::string& name) const {
    const std::string wanted = "params." + name;
    for (size_t at = 0; (at = workflow_.text.find(wanted, at)) != std::string::npos;) {
      at += wanted.size();
      const char next = at < workflow_.text.size() ? workflow_.text[at] : ' ';
      if (!is_word(next) || next == '.') return true;
    }
    return false;
  }

  /// The location of the key below `params:`.
  Location place_of(const std::string& name) const {
    const std::string& text = workflow_.text;
    size_t at = text.find("params:");
    do {
      at = text.find(name + ":", at + 1);
    } while (at != text.npos && is_word(text[at - 1]));
    if (at == text.npos) at = 0;
    const std::string before = text.substr(0, at);
    return {int(std::ranges::count(before, '\n')) + 1, int(at - (before.rfind('\n') + 1)) + 1};
  }

  const Workflow& workflow_;
  Diagnostics& warnings_;
  fs::path base_;
};

}  // namespace

Diagnostics warnings_of_commands(const Workflow& workflow) {
  Diagnostics warnings;
  Looking looking(workflow, warnings);
  for (const Step& step : workflow.steps) looking.look_at(step);
  looking.look_at_params();
  return warnings;
}

}  // namespace dlflow
