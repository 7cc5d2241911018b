#include "engine/model/profile_shape.h"

#include <string_view>

#include "engine/model/forms.h"
#include "engine/model/schedulers.h"

namespace dlflow {
namespace {

const Shape& size_or_zero() {
  static const Shape shape = either({formed(kSizeForm), number_between(0, 0)});
  return shape;
}

const Shape& node_shape() {
  static const Shape shape = object({
      {"cores", integer(0), "Cores of a node", kOptional, 0},
      {"memory", size_or_zero(), "Memory of a node that jobs may use", kOptional, 0},
      {"gpus", integer(0), "GPUs of a node", kOptional, 0},
  });
  return shape;
}

const Shape& limits_shape() {
  static const Shape duration_or_zero = either({formed(kDurationForm), number_between(0, 0)});
  static const Shape shape = object({
      {"walltime", duration_or_zero, "Longest walltime of a job", kOptional, 0},
      {"nodes", integer(0), "Most nodes of a job", kOptional, 0},
      {"array_size", integer(0), "Most tasks of an array", kOptional, 0},
      {"array_throttle", integer(0), "Tasks of an array that run at a time", kOptional, 0},
      {"jobs", integer(0), "Most jobs submitted at a time", kOptional, 0},
      {"dependencies", integer(0), "Most jobs that one job may wait for", kOptional, 0},
      {"submit_interval", duration_or_zero, "Least time between two submissions", kOptional, 0},
  });
  return shape;
}

bool is_bind(std::string_view text) { return text.starts_with('/') && kLineForm.accepts(text); }

const Shape& container_shape() {
  static const Form bind = {.what = "a folder to bind",
                            .examples = "/data, /site/data:/data or /data:ro",
                            .pattern = "^/[^\\x00-\\x1f]*$",
                            .accepts = is_bind};
  static const Shape shape = object({
      {"runtime",
       choice({"none", "udocker", "charliecloud", "apptainer", "singularity", "podman",
               "bubblewrap", "docker", "pyxis"}),
       "Runtime of steps that have an image", kOptional, "none"},
      {"command", list_of(text()), "Program of the runtime, with its first arguments", kOptional,
       Json::array()},
      {"mode", choice({"P1", "P2", "R1", "R2", "R3"}), "Execution mode of udocker", kOptional,
       "P1"},
      {"arguments", list_of(text()), "Further arguments for each container", kOptional,
       Json::array()},
      {"binds", list_of(formed(bind)), "Folders of the host that containers see", kOptional,
       Json::array()},
  });
  return shape;
}

/// The same keys, without defaults.
Shape partly(Shape shape) {
  for (Field& field : shape.fields) field.fallback = nullptr;
  return shape;
}

Shape launcher_shape() {
  return object({
      {"program", formed(kPathForm), "mpirun, srun or a path", kRequired},
      {"arguments", list_of(text()), "Arguments before the number of ranks", kOptional,
       Json::array()},
  });
}

Shape without_defaults(Shape shape) {
  for (Field& field : shape.fields) {
    // The arguments of a launcher are never inherited.
    if (field.name != "launcher") field.shape = partly(field.shape);
  }
  return shape;
}

/// Adds a section for the options of each batch system.
Shape with_batch_options(Shape shape) {
  for (const auto& [system, section] : batch_sections()) {
    shape.fields.push_back({system, section.options, section.summary});
  }
  return shape;
}

/// The shape of an entry of `classes`: settings that differ from the profile's.
Shape class_shape() {
  Shape limits = limits_shape();
  std::erase_if(limits.fields, [](const Field& field) {
    return field.name != "walltime" && field.name != "nodes" && field.name != "array_throttle";
  });
  return without_defaults(with_batch_options(object({
      {"local", boolean(), "Whether its steps run on the login node, without the batch system"},
      {"ranks_per_node", integer(0), "Ranks of a step that share a node"},
      {"node", node_shape(), "Resources of one node of the class"},
      {"limits", limits, "Limits on a job of the class"},
      {"launcher", launcher_shape(), "How steps with several ranks are started"},
      {"setup", list_of(text()), "Shell lines before each job"},
  })));
}

}  // namespace

const Shape& profile_shape() {
  static const Shape paths = object({
      {"runs", formed(kPathForm), "Folder that holds the folders of runs", kOptional,
       "dlflow-runs"},
      {"cache", text(), "Folder of staged files", kOptional, ""},
      {"scratch", text(), "Folder on a node's own disk", kOptional, ""},
  });
  static const Shape shape = with_batch_options(object({
      {"name", formed(kNameForm), "Name of the profile"},
      {"extends", formed(kNameForm), "Profile that provides the keys missing here"},
      {"scheduler", choice(schedulers()), "Batch system that starts jobs; local: dlflow itself"},
      {"cores", integer(0), "Cores that jobs may use together"},
      {"memory", size_or_zero(), "Memory that jobs may use together"},
      {"gpus", integer(0), "GPUs that jobs may use together"},
      {"ranks_per_node", integer(0), "Ranks of a step that share a node"},
      {"node", node_shape(), "Resources of one node"},
      {"limits", limits_shape(), "Limits of the cluster"},
      {"launcher", launcher_shape(), "How steps with several ranks are started"},
      {"container", container_shape(), "How steps with an image run"},
      {"setup", list_of(text()), "Shell lines before each job"},
      {"environment", map_of(kVariableForm, scalar()), "Environment variables of each job"},
      {"inherit", list_of(formed(kInheritedForm)),
       "Further variables that jobs get from the caller"},
      {"paths", paths, "Folders"},
      {"cache_budget", size_or_zero(), "Maximum size of the cache"},
      {"scratch_budget", size_or_zero(), "Maximum size of all copies of data on a node's own disk"},
      {"exclude_nodes", integer(0), "Failures after which a node is excluded; 0: never"},
      {"submit_from_jobs", boolean(),
       "Whether a job may submit, from its node, the jobs of a list that it wrote"},
      {"classes", map_of(kNameForm, class_shape()), "Classes of nodes that steps are placed in"},
  }));
  return shape;
}

const Shape& extending_profile_shape() {
  static const Shape shape = without_defaults(profile_shape());
  return shape;
}

}  // namespace dlflow
