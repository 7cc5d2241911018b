#include "engine/model/workflow_shape.h"

#include "engine/model/forms.h"
#include "engine/model/step_kinds.h"

namespace dlflow {
namespace {

Shape build_shape() {
  return object({
      {"run", either({text(), list_of(text(), 1)}),
       "A script for the image's bash or sh, which ends with the first command that fails; or a "
       "program and its arguments",
       kRequired, nullptr, Scope::Nothing},
      {"env", map_of(kEnvForm, scalar()), "Environment variables of the command"},
  });
}

Shape image_shape() {
  return object({
      {"from", formed(kImageSourceForm),
       "Where the image comes from; paths are relative to the workflow file", kRequired},
      {"digest", formed(kDigestForm), "Digest that the image must have"},
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
      {"include", list_of(element),
       "Further elements, each new and with a value for every axis. Without axes they are the "
       "matrix"},
      {"exclude", list_of(element),
       "Elements to leave out: all that have these values. Some keys of a mapping are enough. "
       "include is not affected"},
      {"zip", list_of(formed(kNameForm), 2),
       "Axes of equal length that go together: their first values, their second values, …"},
      {"max_parallel", integer(1),
       "Maximum number of elements that run at a time (%N of a SLURM array); no limit unless "
       "given"},
      {"pack", pack, "Number of elements that share a job on SLURM, one after the other", kOptional,
       1},
  };
  return matrix;
}

Shape checkpoint_shape() {
  return object({
      {"every", formed(kIntervalForm), "Interval between checkpoints: 1 epoch, 200 steps or 30m",
       kOptional, "1 epoch"},
      {"keep", integer(1), "Number of newest checkpoints to keep", kOptional, 2},
      {"signal", choice({"SIGUSR1", "SIGTERM"}),
       "For run steps: signal that asks each process with a handler to save", kOptional, "SIGUSR1"},
      {"lead", formed(kDurationForm),
       "For run steps: time before the walltime at which the signal is sent, at most half of the "
       "walltime; 1 minute unless given"},
      {"newer", formed(kPatternForm),
       "For run steps: pattern of files below $DLFLOW_CHECKPOINTS, as `ckpt/*.pt`. A new file "
       "shows that a pass has saved"},
  });
}

Shape retry_shape() {
  Shape status = integer(1);
  status.maximum = 255;
  const Shape cause =
      either({choice(std::vector<std::string>(kRetryCauses.begin(), kRetryCauses.end())), status});
  return object({
      {"attempts", integer(1), "Maximum number of tries, including the first", kRequired},
      {"on",
       list_of(cause),
       "Causes after which the job is tried again; an exit status is from 1 to 255, but not 75",
       kOptional,
       {"node-failure", "preempted", "timeout"}},
      {"memory_factor", number(1),
       "On SLURM: factor that multiplies the memory after an out-of-memory failure, up to that of "
       "a node",
       kOptional, 2},
      {"walltime_factor", number(1),
       "Factor that multiplies the walltime after a timeout, up to the profile's limit", kOptional,
       1},
  });
}

/// The shape of an entry of `inputs` that is read in place, by its absolute path.
Shape data_shape() {
  return object({
      {"path", formed(kDataPathForm),
       "A file or folder of this machine, read in place, also in a container", kRequired},
      {"hash", choice({"content", "none"}),
       "content: the step runs again if the content changes. none: changes are ignored", kOptional,
       "content"},
  });
}

Shape environment_shape() {
  Shape shape = object({
      {"modules", list_of(formed(kModuleForm), 1), "Environment modules to load, in order"},
      {"venv", formed(kPathForm), "Folder of a Python virtual environment"},
      {"conda", formed(kPathForm), "Name or folder of a conda environment"},
      {"uv", formed(kPathForm), "Folder of a uv project; its .venv is used"},
      {"pixi", formed(kPathForm), "Folder of a pixi project"},
      {"spack", formed(kPathForm), "Name or folder of a Spack environment"},
      {"lock", formed(kPathForm), "File that lists the installed packages, as requirements.lock"},
  });
  shape.about_others = "; variables of the program are set by 'env'";
  return shape;
}

Shape reuse_shape() {
  return object({
      {"environment", list_of(formed(kVariableForm), 1),
       "Variables whose values decide reuse, from the profile or else from the shell that plans "
       "the run; LOADEDMODULES: the loaded modules"},
      {"program", boolean(),
       "Whether the path and content of the program that begins `run: [..]` decide reuse; it is "
       "found in the step's PATH",
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
              "Kind of the step; instead of run"}),
      scoped(
          Scope::Steps,
          {"run", command,
           "A shell script; or a list of a program and its arguments, which may hold expressions"}),
      scoped(Scope::Steps, {"with", anything(),
                            "Options of the kind; of a run step any values, which the program "
                            "reads from the JSON file $DLFLOW_WITH"}),
      scoped(Scope::Nothing, {"needs", names,
                              "Steps that must succeed first. Steps whose outputs or metrics are "
                              "referred to need not be named"}),
      scoped(Scope::Params, {"matrix", matrix_shape(),
                             "Axes of values; the step runs once for each combination, as a job"}),
      scoped(Scope::Params, {"repeat", integer(1),
                             "Number of repetitions with $DLFLOW_SEED 1, 2, …, a further axis of "
                             "the matrix. A train step without seed takes it as seed"}),
      scoped(Scope::Params,
             {"image", formed(kNameForm),
              "Container image of images that the step runs in; none: no container"}),
      scoped(Scope::Steps, {"env", map_of(kEnvForm, scalar()),
                            "Environment variables of the program; not DLFLOW_…"}),
      scoped(Scope::Params,
             {"environment", environment_shape(),
              "For run steps: modules and packages that are loaded before the program starts"}),
      scoped(Scope::Nothing,
             {"secrets", list_of(formed(kSecretForm)),
              "Secret environment variables; not PATH, DLFLOW_…, LD_…, nor a name of env"}),
      scoped(Scope::Nothing, {"inherit", list_of(formed(kInheritedForm)),
                              "For run steps: further variables of the caller's shell"}),
      scoped(Scope::Matrix, {"resources", resources_shape(), "Resources that each job requests"}),
      scoped(Scope::Params, {"on", formed(kNameForm),
                             "Class of the profile's nodes that the step runs on; the first that "
                             "fits resources unless given"}),
      scoped(Scope::Nothing, {"launch", choice({"ranks", "node"}),
                              "For run steps. ranks: start each rank; node: start one program per "
                              "node, which starts the ranks itself",
                              kOptional, "ranks"}),
      scoped(Scope::Params, {"checkpoint", checkpoint_shape(),
                             "When the program saves its state; of train and run steps"}),
      scoped(Scope::Params, {"retry", retry_shape(), "When a failed job is tried again"}),
      scoped(Scope::Params, {"require", map_of(kNameForm, formed(kRequirementForm)),
                             "Conditions on metrics: {accuracy: \">= 0.88\"}. The step fails "
                             "unless all are true; NaN makes every condition false"}),
      scoped(
          Scope::Steps,
          {"if", boolean(),
           "Condition. If it is false, the step and all steps that use its outputs are skipped"}),
      scoped(Scope::Params,
             {"allow_failure", boolean(), "If the step fails, the run continues and can succeed",
              kOptional, false}),
      scoped(Scope::Params, {"inputs", list_of(either({formed(kInputForm), data_shape()})),
                             "Files and folders that the step reads, relative to the workflow "
                             "file; or data elsewhere, as a mapping"}),
      scoped(Scope::Params, {"reuse", reuse_shape(), "For run steps: further conditions of reuse"}),
      scoped(Scope::Params, {"outputs", map_of(kNameForm, formed(kInnerPathForm)),
                             "For run steps: files and folders that the step leaves, by name"}),
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
      {"tensorboard", boolean(), "Whether to write event files into RUN/tensorboard", kOptional,
       false},
      {"mlflow", formed(mlflow_form()),
       "The store that `mlflow ui` shows: https://HOST or sqlite:////FILE"},
      {"wandb", choice({"offline"}), "Folders in RUN/wandb, for `wandb sync`"},
      {"aim", formed(kAbsolutePathForm), "The folder of Aim's repository"},
      {"comet_ml", choice({"offline"}), "Files in RUN/comet, for `comet upload`"},
      {"openmetrics", formed(kAbsolutePathForm), "A text file for Prometheus' node exporter"},
  });
}

Shape notify_shape() {
  return object({
      {"on", list_of(choice({"end", "failure", "no-progress"}), 1), "Events to report", kOptional,
       Json::array({"end"})},
      {"command", list_of(text(), 1), "Program and its arguments"},
      {"mail", either({formed(kMailForm), list_of(formed(kMailForm), 1)}),
       "Addresses to mail to, with sendmail, mail or mailx"},
      {"webhook", formed(kSecretForm), "Secret that holds the address to which curl posts JSON"},
  });
}

}  // namespace

const Shape& resources_shape() {
  static const Shape shape = object({
      {"ranks", either({integer(1), choice({kAutomaticRanks})}),
       "Number of processes that work together, or auto: the recommendation of `dlflow plan`; "
       "nodes x ranks_per_node, or 1, unless given"},
      {"cpus_per_rank", integer(1), "Processor cores per rank", kOptional, 1},
      {"gpus_per_rank", integer(0), "GPUs per rank", kOptional, 0},
      {"memory", formed(kMemoryForm),
       "Memory of the whole job: 512MiB, 2GiB, 16g (GiB, as in SLURM), 1.5GB or a number of bytes"},
      {"walltime", formed(kDurationForm),
       "Time limit of the job: 90s, 20m, 4h, 1h30m, 04:00:00 or 1-12:00:00; 1:30 is refused as "
       "ambiguous"},
      {"nodes", integer(1),
       "Number of nodes that the ranks are spread over; without another key, one rank on each"},
      {"ranks_per_node", integer(1), "Ranks that share a node; the profile's unless given"},
      {"exclusive", boolean(),
       "Whether no other job shares the nodes; on this machine, whether the job runs alone"},
      {"memory_per_rank", formed(kMemoryForm), "Instead of memory: of each rank"},
      {"memory_per_gpu", formed(kMemoryForm), "Instead of memory: for each GPU"},
      {"licences", map_of(kLicenceForm, integer(1)),
       "Licences that the batch system counts: {matlab: 2}; ignored on this machine"},
  });
  return shape;
}

const Shape& step_shape() {
  static const Shape shape = make_step_shape();
  return shape;
}

const Shape& workflow_shape() {
  static const Shape shape = object({
      scoped(Scope::Nothing, {"name", formed(kNameForm),
                              "Name of the workflow; its runs are called digits-7f3a91c0; the "
                              "file's name unless given"}),
      scoped(Scope::Params, {"params", map_of(kNameForm, anything()),
                             "Values for expressions. A parameter may refer to those above it; "
                             "--set NAME=VALUE replaces one"}),
      scoped(Scope::Params,
             {"images", map_of(kNameForm, image_shape()), "Container images, by name"}),
      scoped(Scope::Steps,
             {"steps", map_of(kNameForm, anything()), "The steps, by name", kRequired}),
      scoped(Scope::Params, {"track", track_shape(), "Programs that show what runs report"}),
      scoped(Scope::Params,
             {"notify", notify_shape(), "Messages about the end of a run and its failures"}),
  });
  return shape;
}

}  // namespace dlflow
