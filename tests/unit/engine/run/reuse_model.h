#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "engine/plan/job.h"
#include "tests/unit/engine/run/random_workflow.h"

/// The results of a random workflow, computed without dlflow and without a shell.
namespace dlflow::test {

/// A job of a run in which every job runs.
struct ModelJob {
  struct File {
    std::string content;
    bool may_run = false;
  };
  const RandomStep* step = nullptr;
  std::map<std::string, int> element = {};  ///< axis -> value
  JobState state = JobState::Succeeded;
  std::string reason = {};                   ///< why the job did not succeed
  std::map<std::string, File> outputs = {};  ///< keys: paths in the folder of outputs

  std::string name() const {
    std::string label;
    for (const auto& [axis, value] : element) {
      label += (label.empty() ? "" : ",") + axis + "=" + std::to_string(value);
    }
    return label.empty() ? step->name : step->name + "[" + label + "]";
  }

  /// Returns the one output that other jobs read.
  std::string output() const { return step->stages ? "data" : step->output; }
};

/// One run of a workflow.
class ModelRun {
 public:
  /// \param workflow  its `data` is the file that programs read.
  /// \param shared    content of the file that one of them writes; empty: no file.
  ModelRun(const RandomWorkflow& workflow, std::string& shared)
      : workflow_(workflow), shared_(shared) {
    for (const RandomStep& step : workflow.steps) {
      for (ModelJob& job : elements_of(step)) {
        settle(job);
        if (job.state == JobState::Succeeded) publish(job);
        jobs_[step.name].push_back(std::move(job));
      }
    }
  }

  /// Returns the same as World::run().
  std::map<std::string, std::string> published() const {
    std::map<std::string, std::string> all;
    for (const auto& [step, jobs] : jobs_) {
      for (const ModelJob& job : jobs) {
        std::string& content = all[job.name()];
        content = job.state == JobState::Succeeded ? "done\n" : job.reason;
        for (const auto& [name, file] : job.outputs) {
          content += name + (file.may_run ? " (may run):\n" : ":\n") + file.content;
        }
      }
    }
    return all;
  }

 private:
  using Jobs = std::vector<const ModelJob*>;

  std::vector<ModelJob> elements_of(const RandomStep& step) const {
    std::vector<ModelJob> jobs = {{.step = &step}};
    const auto multiply = [&](const std::string& axis, const std::vector<int>& values) {
      std::vector<ModelJob> product;
      for (const ModelJob& job : jobs) {
        for (const int value : values) {
          product.push_back(job);
          product.back().element[axis] = value;
        }
      }
      jobs = std::move(product);
    };
    for (const std::string& axis : axes_of(step)) multiply(axis, workflow_.axes.at(axis));
    if (step.repeats) multiply("repeat", {1, 2});
    return jobs;
  }

  /// Returns the parents that have the values of `job` on their common axes.
  Jobs parents_of(const ModelJob& job, const std::string& step) const {
    Jobs parents;
    for (const ModelJob& parent : jobs_.at(step)) {
      const bool agrees = std::ranges::all_of(parent.element, [&](const auto& axis) {
        const auto own = job.element.find(axis.first);
        return own == job.element.end() || own->second == axis.second;
      });
      if (agrees) parents.push_back(&parent);
    }
    return parents;
  }

  /// Whether `job` gets the outputs of these as a list.
  static bool is_list(const ModelJob& job, const Jobs& parents) {
    return parents.size() != 1 || !std::ranges::includes(job.element, parents.front()->element);
  }

  /// Decides whether it is blocked, skipped, or fails.
  void settle(ModelJob& job) const {
    const RandomStep& step = *job.step;
    for (const auto* names : {&step.needs, &step.reads}) {
      for (const std::string& name : *names) {
        for (const ModelJob* parent : parents_of(job, name)) {
          if (parent->state == JobState::Blocked)
            return end(job, JobState::Blocked, parent->reason);
        }
      }
    }
    std::string missing;  // the first step that left nothing for it
    std::vector<std::string> reads = step.reads;
    std::ranges::sort(reads);
    for (const std::string& name : reads) {
      const Jobs parents = parents_of(job, name);
      const size_t left = std::ranges::count(parents, JobState::Succeeded, &ModelJob::state);
      if (left == parents.size() || (left > 0 && is_list(job, parents))) continue;
      const auto failed = std::ranges::find(parents, JobState::Failed, &ModelJob::state);
      if (is_list(job, parents) && failed != parents.end()) {
        return end(job, JobState::Blocked, "waits for " + (*failed)->name());
      }
      if (missing.empty()) missing = name;
    }
    if (!missing.empty()) {
      end(job, JobState::Skipped, "it uses " + missing + ", which was skipped or has failed");
    } else if (step.has_condition && workflow_.params.at("q") != 1) {
      end(job, JobState::Skipped, "its `if:` is false");
    } else if (step.may_fail && job.element.at(step.axis) == step.failing) {
      end(job, JobState::Failed, "exit 7; which is allowed");
    }
  }

  static void end(ModelJob& job, JobState state, const std::string& reason) {
    job.state = state;
    job.reason = reason;
  }

  void publish(ModelJob& job) {
    const RandomStep& step = *job.step;
    if (step.stages) {
      job.outputs["data/data"] = {workflow_.data};
    } else if (step.writes_shared) {
      shared_ = text_of(job);
    } else if (step.is_folder) {
      job.outputs[step.output + "/a"] = {text_of(job)};
      job.outputs[step.output + "/b"] = {text_of(job), step.is_executable};
    } else {
      job.outputs[step.output] = {text_of(job), step.is_executable};
    }
  }

  /// Returns the lines that its script prints, see script().
  std::string text_of(const ModelJob& job) const {
    const RandomStep& step = *job.step;
    std::string text = "constant " + std::to_string(step.constant) + "\n";
    if (!step.input.empty()) {
      text +=
          step.input + "\n" + shown({workflow_.files.at(step.input), step.input == workflow_.runs});
    }
    if (step.sees_param) text += "p " + std::to_string(workflow_.params.at("p")) + "\n";
    const std::string ranks = std::to_string(step.ranks);
    if (step.ranks > 1) text += "ranks " + ranks + "\n";
    if (step.says_names) text += "I am " + step.name + " " + job.name() + " " + ranks + "\n";
    for (const auto& [axis, value] : job.element) {
      text += (step.repeats ? "seed " : "axis ") + std::to_string(value) + "\n";
    }
    if (step.reads_data) text += shown({workflow_.data});
    if (step.sees_shell) text += "shell " + workflow_.shell + "\n";
    if (!step.folder_of.empty()) {
      for (const auto& [name, content] : workflow_.folder) text += name + "\n" + shown({content});
    }
    if (step.reads_shared && !shared_.empty()) text += shown({shared_});
    for (const std::string& name : step.reads) {
      const Jobs parents = parents_of(job, name);
      text += name + "\n" + (is_list(job, parents) ? "a list\n" : "");
      for (const ModelJob* parent : parents) text += shown_outputs(*parent);
    }
    return text;
  }

  static std::string shown_outputs(const ModelJob& parent) {
    if (parent.state != JobState::Succeeded) return "";
    std::string text = parent.output() + "\n";
    for (const auto& [path, file] : parent.outputs) {
      if (path != parent.output()) text += path.substr(path.find('/') + 1) + "\n";
      text += shown(file);
    }
    return text;
  }

  static std::string shown(const ModelJob::File& file) {
    const std::string end = file.content.ends_with('\n') ? "" : "\n";
    return file.content + end + (file.may_run ? "may run\n" : "");
  }

  const RandomWorkflow& workflow_;
  std::string& shared_;
  std::map<std::string, std::vector<ModelJob>> jobs_;  // keys: steps
};

}  // namespace dlflow::test
