#include "engine/model/step_kinds.h"

#include <algorithm>

#include "engine/model/forms.h"
#include "engine/model/train_with.h"

namespace dlflow {
namespace {

Field parallel_field() {
  return {"parallel", integer(1), "Number of simultaneous transfers", kOptional, 4};
}

Field bandwidth_field() {
  return {"bandwidth", formed(kSizeForm),
          "Maximum bytes per second of all transfers together; no limit unless given"};
}

StepKind stage_kind() {
  const Shape address = object({
      {"url", formed(kUrlForm), "Address of the manifest", kRequired},
      {"sha256", formed(kSha256Form), "SHA-256 of the manifest", kRequired},
  });
  const Shape source = object({
      {"url", formed(kUrlForm),
       "Address of a file; of a folder, with a / at the end; or a pattern: `/data/*.gz`",
       kRequired},
      {"sha256", formed(kSha256Form), "SHA-256 of the file before unpacking"},
      {"manifest", either({formed(kModelFileForm), address}),
       "List of all files of a folder, pattern or archive, as sha256sum prints it"},
      {"commit", formed(kCommitForm), "Commit of a git URL, which requires it"},
      {"unpack", choice({"none", "gzip", "zip", "tar"}),
       "Format to unpack each file from; a tar may be compressed by gzip, xz, bzip2 or zstd",
       kOptional, "none"},
      {"name", formed(kFileNameForm),
       "Name in the step's folder, or for a pattern its folder; unless given, the end of the URL "
       "without the suffix that unpacking removes"},
  });
  return {
      .name = "stage",
      .description = "Copies files into the run, through a cache that runs share",
      .with = object({{"sources", list_of(source, 1), "Files to stage, in order", kRequired},
                      parallel_field(),
                      bandwidth_field()}),
      .outputs = {{"path", text(), "The folder of the staged files"}},
      .sources = "sources",
      .reuse = StepKind::Reuse::Own,  // the cache already shares the files
  };
}

StepKind stage_out_kind() {
  return {
      .name = "stage-out",
      .description = "Copies results of the run to another place, unless they are already there",
      .with = object(
          {{"from", either({formed(kPathForm), list_of(formed(kPathForm), 1)}),
            "Files and folders to copy", kRequired},
           {"to", formed(kDestinationForm),
            "Folder to copy them into: file://…, ssh://…, rclone://…, s3://… or gs://…", kRequired},
           parallel_field(),
           bandwidth_field()}),
      .outputs = {{"manifest", text(), "List of the files sent, as sha256sum prints it"}},
      .reuse = StepKind::Reuse::Never,
  };
}

/// Exact training gives the same bits for any number of ranks with the same number of threads each,
/// unless the number of ranks determines the batch. Other training adds in the fastest order, which
/// depends on where its ranks are.
std::vector<std::string> resources_of_training(const Json& with) {
  if (!trains_exactly(with)) return {"ranks", "ranks_per_node", "cpus_per_rank"};
  if (with.contains("batch_per_rank")) return {"ranks", "cpus_per_rank"};
  return {"cpus_per_rank"};
}

StepKind train_kind() {
  return {
      .name = "train",
      .description = "Trains a network on all ranks of the step",
      .program = "dlflow-train",
      .version = 17,
      .with = train_with(),
      .outputs = {{"checkpoints", text(), "The folder of checkpoints"},
                  {"model", text(), "The last checkpoint; with keep_best the best"}},
      .saves_itself = true,
      .alternatives = {{"batch", "batch_per_rank"}},
      .neutral = {"scratch", "loader_threads", "activation_memory"},
      .demands = {{.key = "device",
                   .value = "cuda",
                   .resource = "gpus_per_rank",
                   .file = "libdlflow_cuda.so",
                   .advice = "build dlflow where CMake finds CUDA, cuDNN and cuBLASLt, or leave "
                             "'device: cuda' out"}},
      .model = "model",
      .data = "data",
      .divides_into_leaves = true,
      .decisive_resources = resources_of_training,
  };
}

StepKind checkpoint_kind() {
  return {
      .name = "checkpoint",
      .description = "Selects one of several checkpoints, verifies and exports it",
      .version = 3,
      .with = object({
          {"from", either({formed(kPathForm), list_of(formed(kPathForm), 1)}),
           "Folders of checkpoints, or checkpoints", kRequired},
          {"select", formed(kSelectionForm), "Checkpoint to select", kOptional, "latest"},
          {"verify", boolean(),
           "Check the hashes of every checkpoint before the selection, not only of the selected "
           "one",
           kOptional, true},
          {"prune", integer(1),
           "Number of newest checkpoints to keep in each folder, besides the selected one; all "
           "unless given"},
          {"export", choice({"safetensors", "onnx"}),
           "Format of an additional file with only the network (docs/user/model-format.md)"},
      }),
      .outputs = {{"checkpoint", text(), "The folder of the selected checkpoint"},
                  {"export", text(), "The exported file; only with the key export"}},
      .selects_from = "from",
      .checkpoint = "from",
  };
}

StepKind evaluate_kind() {
  return {
      .name = "evaluate",
      .description = "Measures the accuracy and loss of a trained network on test data",
      .program = "dlflow-evaluate",
      .version = 10,
      .with = data_step({
          {"checkpoint", formed(kPathForm), "Folder of the checkpoint", kRequired},
          {"data", formed(kPathForm), "Folder of the test data", kRequired},
          scratch_field(),
          loader_threads_field(),
          {"batch", integer(1), "Samples per forward pass; results are the same but for rounding",
           kOptional, 256},
      }),
      .neutral = {"scratch", "loader_threads"},
      .checkpoint = "checkpoint",
      .data = "data",
      .reads_test_split = true,
      .decisive_resources = [](const Json&) { return std::vector<std::string>{"cpus_per_rank"}; },
  };
}

const Form& prediction_format_form() {
  static const Form form = {
      .what = "one of csv, npy",
      .examples = "csv or npy",
      .pattern = "^(csv|npy)$",
      .accepts = [](std::string_view text) { return text == "csv" || text == "npy"; },
      .advice = [](std::string_view text) -> std::string {
        if (text != "parquet" && text != "netcdf") return "";
        return "write csv or npy, and convert the file with `python -m dlflow.convert`";
      }};
  return form;
}

StepKind predict_kind() {
  return {
      .name = "predict",
      .description = "Writes the output of a trained network for each sample",
      .program = "dlflow-predict",
      .version = 7,
      .with = object({
          {"checkpoint", formed(kPathForm), "Folder of the checkpoint", kRequired},
          {"data", formed(kPathForm),
           "Folder of a data set, of pictures or of texts; or a table, a picture or a text",
           kRequired},
          {"split", choice({"test", "train"}), "Part of a data set", kOptional, "test"},
          {"origin", list_of(text(), 1),
           "Lines of `columns.txt` beside the training data, if the checkpoint lacks them"},
          {"format", formed(prediction_format_form()), "File format of the predictions", kOptional,
           "csv"},
          loader_threads_field(),
          {"batch", integer(1), "Samples per forward pass", kOptional, 256},
          {"shard", integer(0), "Number, from 0, of the part of the samples that this job takes",
           kOptional, 0},
          {"shards", integer(1), "Number of such parts", kOptional, 1},
      }),
      .outputs = {{"predictions", text(), "The file"}},
      .neutral = {"loader_threads"},
      .checkpoint = "checkpoint",
      .data = "data",
      .needs_answers = false,
      .reads_test_split = true,
      .decisive_resources = [](const Json&) { return std::vector<std::string>{"cpus_per_rank"}; },
  };
}

}  // namespace

std::span<const StepKind> step_kinds() {
  static const std::vector<StepKind> kinds = {stage_kind(),      stage_out_kind(), train_kind(),
                                              checkpoint_kind(), evaluate_kind(),  predict_kind()};
  return kinds;
}

const StepKind* find_step_kind(std::string_view name) {
  const auto kinds = step_kinds();
  const auto found = std::ranges::find(kinds, name, &StepKind::name);
  return found == kinds.end() ? nullptr : &*found;
}

bool copies_sources(std::string_view uses) {
  const StepKind* kind = find_step_kind(uses);
  return kind != nullptr && !kind->sources.empty();
}

bool can_save(std::string_view uses, const std::optional<CheckpointPolicy>& policy) {
  const StepKind* kind = find_step_kind(uses);
  return policy.has_value() || (kind != nullptr && kind->saves_itself);
}

}  // namespace dlflow
