#pragma once

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/model/workflow.h"
#include "tests/support/dice.h"

/// Small random workflows whose programs print all that they can see, and edits of users between
/// two runs.
namespace dlflow::test {

struct RandomStep {
  std::string name;
  bool has_own_shell = false;  ///< its shell may start faster than a script's
  bool stages = false;  ///< brings the data through the cache; the fields below are for commands
  int constant = 0;
  std::string axis;  ///< the axis of its matrix; empty: none. "a" and "b" belong to several steps
  std::string second_axis;  ///< a further axis
  bool repeats = false;
  bool has_condition = false;
  bool may_fail = false;           ///< `allow_failure`
  int failing = 0;                 ///< its axis value with which it fails; 0: none
  std::vector<std::string> reads;  ///< steps whose output it reads, in this order
  std::vector<std::string> needs;  ///< steps that it only waits for
  std::string folder_of;           ///< one of these whose folder it reads
  std::string input;               ///< a file beside the workflow
  std::string output = "o.txt";    ///< empty: it declares none
  bool is_folder = false;
  bool is_executable = false;  ///< its output is executable
  bool says_names = false;
  bool reads_shared = false, writes_shared = false, reads_data = false, sees_param = false;
  bool sees_shell = false;   ///< reads a variable of `inherit:` by a composed name
  std::string names_folder;  ///< how its outputs.json names an external folder; empty: it does not
  int ranks = 1;

  bool is_one_job() const { return axis.empty() && !repeats; }
};

/// Everything that a user may change.
struct RandomWorkflow {
  std::map<std::string, int> params = {{"p", 1}, {"q", 1}};
  std::map<std::string, std::vector<int>> axes;
  std::map<std::string, std::string> files = {{"f0.txt", "zero"}, {"f1.txt", "one"}};
  std::string runs;                                            ///< the executable one of `files`
  std::string data = "data";                                   ///< content of an external file
  std::map<std::string, std::string> folder = {{"x", "one"}};  ///< the files of an external folder
  std::string shell = "one";                                   ///< a variable of dlflow's caller
  std::vector<RandomStep> steps;
};

inline std::vector<std::string> axes_of(const RandomStep& step) {
  std::vector<std::string> axes = {step.axis, step.second_axis};
  std::erase(axes, "");
  return axes;
}

/// Chooses the inputs of a step among the earlier steps.
inline void choose_parents(RandomStep& step, const RandomWorkflow& workflow, Dice& dice) {
  for (const RandomStep& earlier : workflow.steps) {
    if (!earlier.output.empty() && dice.once_in(2)) {
      step.reads.push_back(earlier.name);
    } else if (dice.once_in(4)) {
      step.needs.push_back(earlier.name);
      if (earlier.writes_shared) step.reads_shared = true;
      if (!earlier.names_folder.empty()) step.folder_of = earlier.name;
    }
  }
}

inline RandomStep random_step(const RandomWorkflow& workflow, Dice& dice) {
  RandomStep step;
  const std::string number = std::to_string(workflow.steps.size());
  step.name = "s" + number;
  step.has_own_shell = workflow.steps.size() % 4 != 0;
  step.stages = dice.once_in(12);
  if (step.stages) return step;
  step.constant = dice.below(2);
  if (dice.once_in(3)) step.axis = dice.once_in(2) ? "a" : dice.once_in(2) ? "b" : "own" + number;
  if (step.axis == "a" && dice.once_in(3)) step.second_axis = "b";
  step.repeats = step.axis.empty() && dice.once_in(8);
  step.has_condition = dice.once_in(8);
  step.may_fail = !step.axis.empty() && dice.once_in(3);
  if (step.may_fail) step.failing = dice.below(3);
  choose_parents(step, workflow, dice);
  if (dice.once_in(2)) step.input = dice.once_in(2) ? "f0.txt" : "f1.txt";
  step.says_names = dice.once_in(4);
  step.reads_data = dice.once_in(4);
  step.sees_param = dice.once_in(2);
  step.sees_shell = dice.once_in(4);
  // Only steps that are never skipped: their dependents read the folder, which nothing else names.
  const bool always_runs = step.is_one_job() && !step.has_condition && step.reads.empty();
  if (always_runs && dice.once_in(3)) {
    const std::vector<std::string> forms = {"", "file://", "file://localhost"};
    step.names_folder = dice.one_of(forms) + "FOLDER" + (dice.once_in(2) ? "/" : "");
  }
  step.is_folder = dice.once_in(4);
  // One step writes to an external place, and has no outputs; a step with outputs is known by them.
  const bool is_first_writer = std::none_of(workflow.steps.begin(), workflow.steps.end(),
                                            [](const RandomStep& s) { return s.writes_shared; });
  if (is_first_writer && step.is_one_job() && !step.has_condition && dice.once_in(3)) {
    step.writes_shared = true;
    step.output.clear();
    step.names_folder.clear();
  }
  return step;
}

inline RandomWorkflow random_workflow(Dice& dice) {
  RandomWorkflow workflow;
  const int num_steps = 2 + dice.below(4);
  for (int number = 0; number < num_steps; ++number) {
    workflow.steps.push_back(random_step(workflow, dice));
    for (const std::string& axis : axes_of(workflow.steps.back())) workflow.axes[axis] = {1, 2};
  }
  return workflow;
}

/// Makes one change as users do between two runs.
inline void edit(RandomWorkflow& workflow, Dice& dice) {
  RandomStep& step = dice.one_of(workflow.steps);
  switch (dice.below(17)) {
    case 0:
      workflow.params["p"] = 1 + dice.below(2);
      break;
    case 1:
      workflow.params["q"] = 1 + dice.below(2);
      break;
    case 2:
      step.constant = dice.below(2);
      break;
    case 3:
      dice.one_of(workflow.files).second = "v" + std::to_string(dice.below(2));
      break;
    case 4:
      std::swap(workflow.files["f0.txt"], workflow.files["f1.txt"]);
      break;
    case 5:
      std::reverse(step.reads.begin(), step.reads.end());
      std::reverse(step.needs.begin(), step.needs.end());
      break;
    case 6:
      if (!step.output.empty()) step.output = step.output == "o.txt" ? "renamed.txt" : "o.txt";
      break;
    case 7:
      if (!step.axis.empty()) {
        const std::vector<std::vector<int>> choices = {{1, 2}, {2}, {2, 1}};
        workflow.axes[step.axis] = choices[size_t(dice.below(choices.size()))];
      }
      break;
    case 8:
      step.ranks = 1 + dice.below(3);
      break;
    case 9:
      step.says_names = !step.says_names;
      break;
    case 10:
      workflow.data = "d" + std::to_string(dice.below(2));
      break;
    case 11:
      step.is_executable = !step.is_executable;
      break;
    case 12:
      if (step.may_fail) step.failing = dice.below(3);
      break;
    case 13:
      workflow.shell = dice.once_in(2) ? "one" : "two";
      break;
    case 14:
      workflow.folder["x"] = "v" + std::to_string(dice.below(2));
      break;
    case 15:
      if (workflow.folder.erase("y") == 0) workflow.folder["y"] = "more";
      break;
    default:
      workflow.runs = workflow.runs.empty() ? dice.one_of(workflow.files).first : "";
  }
}

/// External places that the workflow's programs use.
struct Surroundings {
  std::string data;    ///< a file that they read in place
  std::string shared;  ///< a file that one of them writes
  std::string folder;  ///< a folder that outputs name
};

/// Returns a shell script that prints all that it sees. It does without `cat` and `cp`, which saves
/// a process for each file.
inline std::string script(const RandomStep& step, const Surroundings& around) {
  std::ostringstream sh;
  sh << "show() { while IFS= read -r l || [ -n \"$l\" ]; do printf '%s\\n' \"$l\"; done < $1\n"
     << "if [ -x $1 ]; then echo may run; fi; }\n";
  if (step.may_fail) {
    sh << "if [ $" << environment_name("DLFLOW_MATRIX_", step.axis) << " = " << step.failing
       << " ]; then exit 7; fi\n";
  }
  sh << "show_all() { echo constant " << step.constant << "\n";
  if (!step.input.empty()) sh << "echo " << step.input << "; show " << step.input << "\n";
  if (step.sees_param) sh << "echo p $DLFLOW_PARAM_P\n";
  if (step.ranks > 1) sh << "echo ranks $DLFLOW_RANKS\n";
  if (step.says_names) sh << "echo I am $DLFLOW_STEP $DLFLOW_JOB $DLFLOW_RANKS\n";
  for (const std::string& axis : axes_of(step)) {
    sh << "echo axis $" << environment_name("DLFLOW_MATRIX_", axis) << "\n";
  }
  if (step.repeats) sh << "echo seed $DLFLOW_SEED\n";
  if (step.reads_data) sh << "show " << around.data << "\n";
  if (step.sees_shell) sh << "name=ORACLE_; eval echo shell \\$${name}X\n";
  if (!step.folder_of.empty()) {
    sh << "for g in " << around.folder << "/*; do echo ${g##*/}; show $g; done\n";
  }
  if (step.reads_shared) {  // its writer may have been skipped
    sh << "if [ -e " << around.shared << " ]; then show " << around.shared << "; fi\n";
  }
  for (size_t i = 0; i < step.reads.size(); ++i) {
    sh << "echo " << step.reads[i] << "; case $IN" << i << " in *]) echo a list ;; esac\n"
       << "IFS='[]\"'; for f in $IN" << i << "; do case $f in '' | ,) continue ;; esac\n"
       << "echo ${f##*/}\n"
       << "if [ -d $f ]; then for g in $f/*; do echo ${g##*/}; show $g; done; else show $f; fi\n"
       << "done; unset IFS\n";
  }
  const std::string output = "$DLFLOW_OUTPUTS/" + step.output;
  sh << "}\n";
  if (step.writes_shared) {
    sh << "show_all > " << around.shared;
  } else if (step.is_folder) {
    sh << "mkdir " << output << "; show_all > " << output << "/a; show_all > " << output << "/b";
  } else {
    sh << "show_all > " << output;
  }
  if (!step.names_folder.empty()) {
    std::string place = step.names_folder;
    place.replace(place.find("FOLDER"), 6, around.folder);
    sh << "; echo '{\"folder\": \"" << place << "\"}' > $DLFLOW_OUTPUTS/outputs.json";
  }
  if (step.is_executable && !step.output.empty()) {
    sh << "; chmod +x " << output << (step.is_folder ? "/b" : "");
  }
  return sh.str();
}

inline void write_command(std::ostream& yaml, const RandomStep& step,
                          const RandomWorkflow& workflow, const Surroundings& around) {
  const std::string text = script(step, around);
  if (step.has_own_shell) {
    yaml << "    run: " << Json({"/bin/sh", "-e", "-c", text}).dump() << "\n";
  } else {
    yaml << "    run: |\n";
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) yaml << "      " << line << "\n";
  }
  if (!step.axis.empty()) yaml << "    matrix:\n";
  for (const std::string& axis : axes_of(step)) {
    yaml << "      " << axis << ": " << Json(workflow.axes.at(axis)).dump() << "\n";
  }
  if (step.repeats) yaml << "    repeat: 2\n";
  if (step.may_fail) yaml << "    allow_failure: true\n";
  if (step.has_condition) yaml << "    if: ${{ params.q == 1 }}\n";
  if (!step.reads.empty()) yaml << "    env:\n";
  for (size_t i = 0; i < step.reads.size(); ++i) {
    yaml << "      IN" << i << ": ${{ steps." << step.reads[i] << ".outputs.path }}\n";
  }
  if (!step.needs.empty()) yaml << "    needs: " << Json(step.needs).dump() << "\n";
  Json inputs = Json::array();
  if (!step.input.empty()) inputs.push_back(step.input);
  if (step.reads_data) inputs.push_back({{"path", around.data}});
  if (!inputs.empty()) yaml << "    inputs: " << inputs.dump() << "\n";
  if (!step.output.empty()) yaml << "    outputs: {path: " << step.output << "}\n";
  if (step.ranks > 1) yaml << "    resources: {ranks: " << step.ranks << "}\n";
}

/// Returns the workflow as its user would write it.
inline std::string yaml_of(const RandomWorkflow& workflow, const Surroundings& around) {
  std::ostringstream yaml;
  yaml << "name: w\nparams: {p: " << workflow.params.at("p") << ", q: " << workflow.params.at("q")
       << "}\nsteps:\n";
  for (const RandomStep& step : workflow.steps) {
    yaml << "  " << step.name << ":\n";
    if (step.stages) {
      yaml << "    uses: stage\n    with: {sources: [{url: 'file://" << around.data << "'}]}\n";
    } else {
      write_command(yaml, step, workflow, around);
    }
  }
  return yaml.str();
}

}  // namespace dlflow::test
