#include "engine/model/workflow_shape.h"

#include "engine/model/forms.h"
#include "engine/model/step_kinds.h"

namespace dlflow {
namespace {

Shape build_shape() {
  return object({
      {"run", either({text(), list_of(text(), 1)}), "Script, or program and arguments", kRequired,
       nullptr, Scope::Nothing},
      {"env", map_of(kEnvForm, scalar()), "Environment variables"},
  });
}

Shape image_shape() {
  return object({
      {"from", formed(kImageSourceForm), "Where the image comes from", kRequired},
      {"digest", formed(kDigestForm), "Digest that the image must have, wherever its name points"},
      {"build", build_shape(),
       "A command that changes a copy of the image once on each cluster, before its first use"},
  });
}

Shape matrix_shape() {
  Shape pack = integer(1);
  pack.maximum = 1000;
  const Shape value = either({text(), number(), boolean(), map_of(kNameForm, anything())});
  Shape matrix = map_of(kNameForm, list_of(value, 1));
  const Shape element = map_of(kNameForm, value);
  matrix.fields = {
      {"include", list_of(element), "Further elements, each with a value for every axis"},
      {"exclude", list_of(element),
       "Elements of the product that are left out: those with all "
       "of these values"},
      {"zip", list_of(formed(kNameForm), 2),
       "Axes of equal length that go together: the first values of all, the second ones, …"},
      {"max_parallel", integer(1),
       "Maximum number of elements that run at a time; unless given, as many as have room"},
      {"pack", pack, "Number of elements that share a job of a batch system, one after the other",
       kOptional, 1},
  };
  return matrix;
}

Shape checkpoint_shape() {
  return object({
      {"every", formed(kIntervalForm), "Interval between two checkpoints", kOptional, "1 epoch"},
      {"keep", integer(1), "Number of newest checkpoints to keep", kOptional, 2},
      {"signal", choice({"SIGUSR1", "SIGTERM"}),
       "Of run steps: signal that asks the program to save", kOptional, "SIGUSR1"},
      {"lead", formed(kDurationForm),
       "Of run steps: time before the walltime at which it is asked; a minute unless given"},
      {"newer", formed(kPatternForm),
       "Of run steps: pattern of files below $DLFLOW_CHECKPOINTS; a new one means that the pass "
       "has "
       "saved. Unless given, exit status 75 means it"},
  });
}

Shape retry_shape() {
  Shape status = integer(1);
  status.maximum = 255;
  const Shape cause = either(
      {choice({"failure", "node-failure", "preempted", "timeout", "out-of-memory"}), status});
  return object({
      {"attempts", integer(1), "Number of tries, including the first", kRequired},
      {"on",
       list_of(cause),
       "Causes of failure after which the job is tried again",
       kOptional,
       {"node-failure", "preempted", "timeout"}},
      {"memory_factor", number(1), "Factor by which memory grows after out-of-memory", kOptional,
       2},
      {"walltime_factor", number(1), "Factor by which the walltime grows after a timeout",
       kOptional, 1},
  });
}

/// Of `inputs`: what lies elsewhere, and is read where it lies.
Shape data_shape() {
  return object({
      {"path", formed(kAbsolutePathForm), "A file or folder of this machine", kRequired},
      {"hash", choice({"content", "none"}),
       "content: the step runs again if the content has changed. none: changes are ignored",
       kOptional, "content"},
  });
}

Shape environment_shape() {
  Shape shape = object({
      {"modules", list_of(formed(kModuleForm), 1), "Environment modules to load, in order"},
      {"venv", formed(kPathForm), "Folder of a Python virtual environment"},
      {"conda", formed(kPathForm), "Name or folder of a conda environment"},
      {"uv", formed(kPathForm), "Folder of a uv project, whose .venv is used"},
      {"pixi", formed(kPathForm), "Folder of a pixi project"},
      {"spack", formed(kPathForm), "Name or folder of a Spack environment"},
      {"lock", formed(kPathForm), "File that lists the installed packages"},
  });
  shape.about_others = "; variables of the program are set by 'env'";
  return shape;
}

Shape reuse_shape() {
  return object({
      {"environment", list_of(formed(kVariableForm), 1),
       "Variables, of the profile or else of the shell that plans the run"},
      {"program", boolean(), "The first word of `run: [..]`: where PATH finds it, and its content",
       kOptional, false},
  });
}

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const StepKind& kind : step_kinds()) names.push_back(kind.name);
  return names;
}

Field scoped(Scope scope, Field field) {
  field.scope = scope;
  return field;
}

Shape make_step_shape() {
  const Shape names = either({formed(kNameForm), list_of(formed(kNameForm))});
  const Shape command = either({text(), list_of(argument(), 1)});
  return object({
      scoped(Scope::Nothing,
             {"uses",
              choice(kind_names(), {{"generate",
                                     "export the network with a step 'uses: checkpoint' and "
                                     "generate text in Python, as docs/user/generate.md shows"}}),
              "Kind of the step, unless it has run"}),
      scoped(Scope::Steps,
             {"run", command, "A shell script, or a program and its arguments as a list"}),
      scoped(Scope::Steps, {"with", anything(), "Options of the step, in the file $DLFLOW_WITH"}),
      scoped(Scope::Nothing, {"needs", names,
                              "Steps that must succeed first; those whose outputs "
                              "are referred to need not be named"}),
      scoped(Scope::Params,
             {"matrix", matrix_shape(), "Axes of values; the step runs once for each combination"}),
      scoped(Scope::Params,
             {"repeat", integer(1),
              "Number of times that the step runs, each with another $DLFLOW_SEED: 1, 2, …"}),
      scoped(Scope::Params,
             {"image", formed(kNameForm), "Container image that it runs in, one of images"}),
      scoped(Scope::Steps, {"env", map_of(kEnvForm, scalar()), "Environment variables"}),
      scoped(Scope::Params, {"environment", environment_shape(),
                             "Of run steps: modules and an environment of packages that the "
                             "program finds loaded"}),
      scoped(Scope::Nothing, {"secrets", list_of(formed(kSecretForm)),
                              "Environment variables whose values are taken when the run "
                              "is submitted, and are shown nowhere"}),
      scoped(Scope::Nothing, {"inherit", list_of(formed(kInheritedForm)),
                              "Of run steps: further variables that the step gets from the "
                              "caller, with those of the profile's inherit"}),
      scoped(Scope::Matrix, {"resources", resources_shape(), "Resources that the job requests"}),
      scoped(Scope::Params, {"on", formed(kNameForm),
                             "Class of nodes that it runs on, one of the profile's; unless given, "
                             "the first that fits"}),
      scoped(Scope::Nothing,
             {"launch", choice({"ranks", "node"}),
              "Of run steps: whether each rank is started, or one program per node, which starts "
              "the ranks there",
              kOptional, "ranks"}),
      scoped(Scope::Params, {"checkpoint", checkpoint_shape(), "When the program saves its state"}),
      scoped(Scope::Params, {"retry", retry_shape(), "When the job is tried again"}),
      scoped(Scope::Params, {"require", map_of(kNameForm, formed(kRequirementForm)),
                             "Conditions on metrics; the step fails if one is not met"}),
      scoped(Scope::Steps, {"if", boolean(),
                            "Condition under which the step runs; else it is skipped. With "
                            "always() it runs however the steps end that it needs"}),
      scoped(Scope::Params,
             {"allow_failure", boolean(),
              "Whether the run goes on and succeeds although the step failed", kOptional, false}),
      scoped(Scope::Params, {"inputs", list_of(either({formed(kInputForm), data_shape()})),
                             "Files and folders beside the workflow that the step reads, and "
                             "data elsewhere"}),
      scoped(Scope::Params, {"reuse", reuse_shape(),
                             "Of run steps: what else must be unchanged for a result to be "
                             "reused"}),
      scoped(Scope::Params, {"outputs", map_of(kNameForm, formed(kInnerPathForm)),
                             "Of run steps: their results, as paths below $DLFLOW_OUTPUTS"}),
  });
}

const Form& mlflow_form() {
  static const Form form = {
      "the address of an MLflow store",
      "sqlite:////home/me/mlflow.db or https://mlflow.example.org", "^(sqlite:////.+|https?://.+)$",
      [](std::string_view text) {
        for (const std::string_view start : {"sqlite:////", "http://", "https://"}) {
          if (text.starts_with(start) && text.size() > start.size()) return true;
        }
        return false;
      }};
  return form;
}

Shape track_shape() {
  return object({
      {"tensorboard", boolean(), "Write event files to RUN/tensorboard", kOptional, false},
      {"mlflow", formed(mlflow_form()), "The store that `mlflow ui` shows"},
      {"wandb", choice({"offline"}), "A folder RUN/wandb, which `wandb sync` sends"},
      {"aim", formed(kAbsolutePathForm), "The folder of Aim's repository"},
      {"comet_ml", choice({"offline"}), "Files in RUN/comet, which `comet upload` sends"},
      {"openmetrics", formed(kAbsolutePathForm),
       "A file in OpenMetrics' text format, as Prometheus' node exporter reads it"},
  });
}

Shape notify_shape() {
  return object({
      {"on", list_of(choice({"end", "failure", "no-progress"}), 1),
       "end: the run has succeeded or failed; failure: a job has failed for good; no-progress: a "
       "job is not requeued again, since it has saved nothing new",
       kOptional, Json::array({"end"})},
      {"command", list_of(text(), 1), "Program and arguments; it has the message in its variables"},
      {"mail", either({formed(kMailForm), list_of(formed(kMailForm), 1)}),
       "Addresses; the program `mail` or `sendmail` sends"},
      {"webhook", formed(kSecretForm),
       "Secret that holds the address to which curl posts the message as JSON"},
  });
}

}  // namespace

const Shape& resources_shape() {
  static const Shape shape = object({
      {"ranks", integer(1),
       "Processes that work together; unless given, as many as nodes and "
       "ranks_per_node make, or 1"},
      {"cpus_per_rank", integer(1), "Processor cores of each rank", kOptional, 1},
      {"gpus_per_rank", integer(0), "GPUs of each rank", kOptional, 0},
      {"memory", formed(kMemoryForm), "Memory of the whole job"},
      {"walltime", formed(kDurationForm), "Time after which the job is ended"},
      {"nodes", integer(1), "Number of nodes that the ranks are spread over"},
      {"ranks_per_node", integer(1), "Ranks that share a node; those of the profile unless given"},
      {"exclusive", boolean(), "Whether the job has its nodes to itself"},
      {"memory_per_rank", formed(kMemoryForm), "Memory of each rank, instead of memory"},
      {"memory_per_gpu", formed(kMemoryForm), "Memory for each GPU, instead of memory"},
      {"licences", map_of(kLicenceForm, integer(1)), "Licences that the job needs, by name"},
  });
  return shape;
}

const Shape& step_shape() {
  static const Shape shape = make_step_shape();
  return shape;
}

const Shape& workflow_shape() {
  static const Shape shape = object({
      scoped(Scope::Nothing,
             {"name", formed(kNameForm), "Name of the runs; the file's name unless given"}),
      scoped(Scope::Params, {"params", map_of(kNameForm, anything()),
                             "Values that --set can change, for expressions"}),
      scoped(Scope::Params,
             {"images", map_of(kNameForm, image_shape()), "Container images, by name"}),
      scoped(Scope::Steps,
             {"steps", map_of(kNameForm, anything()), "The steps, by name", kRequired}),
      scoped(Scope::Params, {"track", track_shape(), "Programs that show the metrics of runs"}),
      scoped(Scope::Params,
             {"notify", notify_shape(), "Messages about the end of a run and its failures"}),
  });
  return shape;
}

}  // namespace dlflow
