#include "engine/model/step_kinds.h"

#include <algorithm>

#include "engine/model/forms.h"

namespace dlflow {
namespace {

Field parallel_field() {
  return {"parallel", integer(1), "Number of simultaneous transfers", Presence::Optional, 4};
}

Field bandwidth_field() {
  return {"bandwidth", formed(size_form()),
          "Maximum bytes per second of all transfers together; no limit "
          "unless given"};
}

StepKind stage_kind() {
  const Shape address = object({
      {"url", formed(url_form()), "Address of the manifest", kRequired},
      {"sha256", formed(sha256_form()), "SHA-256 of the manifest", kRequired},
  });
  const Shape source = object({
      {"url", formed(url_form()),
       "Address of a file; of a folder, with a / at the end; or a pattern: /data/*.gz", kRequired},
      {"sha256", formed(sha256_form()), "SHA-256 of the file before unpacking"},
      {"manifest", either({formed(model_file_form()), address}),
       "List of all files of a folder, pattern or archive, as sha256sum prints it"},
      {"commit", formed(commit_form()), "Commit of a git URL"},
      {"unpack", choice({"none", "gzip", "zip", "tar"}),
       "Format to unpack each file from; a tar may be compressed", Presence::Optional, "none"},
      {"name", formed(file_name_form()),
       "Name in the step's folder; unless given, the last part of the URL without the ending that "
       "unpacking removes"},
  });
  return {
      .name = "stage",
      .description = "Copies files into the run, through a cache that runs share",
      .with = object({{"sources", list_of(source, 1), "Files to stage, in order", kRequired},
                      parallel_field(),
                      bandwidth_field()}),
      .outputs = {{"path", text(), "The folder of the staged files"}},
      .sources = "sources",
      .reuse = StepKind::Reuse::Own,  // the cache has them already
  };
}

Field scratch_field() {
  return {"scratch", boolean(), "Each node reads the data from a copy on its own disk",
          Presence::Optional, false};
}

Field cache_field() {
  return {"cache",
          object({{"memory", formed(size_form()),
                   "Memory of each node for data, shared by its ranks", kRequired},
                  {"scratch", formed(size_form()),
                   "Space on each node's own disk for data that does not fit into memory"},
                  {"share", boolean(),
                   "Each node keeps a part of the data for the others, so that it is read once for "
                   "all nodes",
                   Presence::Optional, false}}),
          "Keeps the data that a node has read; needs data with hashes of its parts (dlflow data "
          "pack)"};
}

Field loader_threads_field() {
  return {
      "loader_threads", integer(1),
      "Threads of each rank that prepare samples; of data kept as JPEG as many as it has cores, "
      "else 1, unless given"};
}

StepKind stage_out_kind() {
  return {
      .name = "stage-out",
      .description = "Copies results of the run to another place, unless they are there already",
      .with = object({{"from", either({formed(path_form()), list_of(formed(path_form()), 1)}),
                       "Files and folders to copy", kRequired},
                      {"to", formed(destination_form()), "Folder to copy them into", kRequired},
                      parallel_field(),
                      bandwidth_field()}),
      .outputs = {{"manifest", text(), "List of the files sent, as sha256sum prints it"}},
      .reuse = StepKind::Reuse::Never,
  };
}

/// Which of its keys goes with which kind is for the training to say.
Shape cooperation_shape() {
  return object({
      {"kind", choice({"synchronous", "local_sgd", "parameter_server", "gossip"}),
       "Way to cooperate (docs/user/taxonomy.md)", kRequired},
      {"every", integer(1),
       "local_sgd: number of steps between averagings, 8 unless given; gossip: number of steps "
       "between exchanges, 1 unless given"},
      {"synchronous_epochs", integer(0),
       "local_sgd: number of first epochs in which weights are averaged after every step"},
      {"servers", integer(1),
       "parameter_server: number of ranks, counted from the last, that are servers; 1 unless "
       "given"},
      {"staleness", either({integer(0), choice({"unbounded"})}),
       "parameter_server: maximum number of steps between the fastest worker and the slowest; 0: "
       "synchronous, 'unbounded': asynchronous, 4 unless given"},
  });
}

/// Exact training gives the same bits for any number of ranks with as many threads each, unless the
/// number of ranks makes the batch. Other training adds in the order that is fastest where its
/// ranks are.
std::vector<std::string> resources_of_training(const Json& with) {
  const Json precision = with.value("precision", Json::object());
  const bool exact =
      precision.is_object() && precision.value("reduction", Json("exact")) == "exact";
  const Json cooperation = with.value("cooperation", Json::object());
  const bool synchronous =
      cooperation.is_object() && cooperation.value("kind", Json("synchronous")) == "synchronous";
  if (!exact || !synchronous) return {"ranks", "ranks_per_node", "cpus_per_rank"};
  if (with.contains("batch_per_rank")) return {"ranks", "cpus_per_rank"};
  return {"cpus_per_rank"};
}

StepKind train_kind() {
  const Shape constants = either({number(), list_of(number(), 1)});
  const Shape positive = either({number_above(0), list_of(number_above(0), 1)});
  const Shape normalize = object({
      {"mean", constants, "Subtracted from each channel", kRequired},
      {"std", positive, "Divisor of each channel, after that", kRequired},
  });
  const Shape precision = object({
      {"reduction", choice({"exact", "fast"}),
       "exact: the same weights, bit for bit, on any number of ranks", Presence::Optional, "exact"},
      {"leaves", integer(1),
       "Number of parts that a step is divided into in exact mode, which limits the ranks that "
       "have "
       "work. Unless given up to 8, of at least 32 samples"},
      {"compute", choice({"fp32", "bf16", "tf32"}),
       "Precision of the products in convolutions and linear layers: bf16 on processors with AMX, "
       "tf32 with 'device: cuda'. All else is fp32",
       Presence::Optional, "fp32"},
  });
  const Shape gradients = object({
      {"wire", choice({"fp32", "fp16", "bf16"}),
       "Precision of gradients between nodes; they are added in fp32. fp16 and bf16 need "
       "precision: "
       "{reduction: fast}",
       Presence::Optional, "fp32"},
      {"priority", boolean(), "Send gradients of the first layers before the others",
       Presence::Optional, true},
      {"compression",
       choice({"fp16", "bf16", "int8", "topk", "mstopk", "randomk", "dgc", "powersgd"}),
       "Method that compresses gradients (docs/user/compression.md). Needs precision: {reduction: "
       "fast}"},
      {"density", number_above(0, 1),
       "Of topk, mstopk, randomk, dgc: share of the gradient that is sent; "
       "0.01 unless given"},
      {"warmup_epochs", integer(0), "Of the same: epochs in which more is sent; 0 unless given"},
      {"aggregation", choice({"all-gather", "gtopk", "hierarchical"}),
       "How compressed gradients are summed; unless given hierarchical, of powersgd all-gather"},
      {"rank", integer(1),
       "Of powersgd: rank of the two factors of each gradient matrix; 2 unless "
       "given"},
      {"clip", number(0),
       "Of dgc: maximum norm of a gradient; 0, no limit, "
       "unless given"},
  });
  const Shape optimizer = object({
      {"kind", choice({"sgd", "adam", "adamw", "rmsprop", "adagrad", "lars", "lamb"}),
       "Name of the optimizer", kRequired},
      {"nesterov", boolean(), "Of sgd: use Nesterov momentum; false unless given"},
      {"betas", list_of(number_below(0, 1), 2, 2),
       "Of adam, adamw and lamb: decay rates of the running means of the gradient and of its "
       "square; [0.9, 0.999] unless given"},
      {"eps", number(0),
       "Of all but sgd and lars: added to the denominator for numerical stability; 1e-8 unless "
       "given, of lamb 1e-6, of adagrad 1e-10"},
      {"alpha", number_below(0, 1),
       "Of rmsprop: decay rate of the running mean of the gradient's square; 0.99 unless given"},
      {"trust", number(0), "Of lars: trust coefficient; 0.001 unless given"},
  });
  const Shape group = object({
      {"match", text(), "Pattern of parameters' names: head.*, *.bias", kRequired},
      {"lr_multiplier", number_above(0), "Factor of the learning rate; 1 unless given"},
      {"weight_decay", number(0), "Weight decay instead of that of the other parameters"},
  });
  const Shape change = object({
      {"resized_crop", number_above(0, 1),
       "Cut out at least this share of the picture, and enlarge it"},
      {"rotate", number_above(0, 180), "Rotate by up to this many degrees either way"},
      {"brightness", number_above(0, 1), "Multiply the pixels by 1 - x to 1 + x"},
      {"contrast", number_above(0, 1), "The same of the distance to the picture's mean grey"},
      {"saturation", number_above(0, 1), "The same of the distance to the pixel's grey"},
      {"cutout", integer(1), "Side of a square that becomes the mean colour"},
      {"mixup", number_between(0.05, 1),
       "Mix each picture, and its label, with another one; the share is of Beta(x, x)"},
      {"cutmix", number_between(0.05, 1),
       "The same by a box of the other picture, whose area has that share"},
  });
  const std::vector<std::string> metrics = {"loss", "accuracy", "top5",          "f1",
                                            "auc",  "rmse",     "mae",           "perplexity",
                                            "iou",  "dice",     "pixel_accuracy"};
  const Shape stop_early = object({
      {"metric", choice(metrics), "Metric of the held-out samples", kRequired},
      {"patience", integer(1), "Number of epochs in a row that are not better", kRequired},
      {"min_change", number(0), "Change that counts as better must be more; 0 unless given"},
  });
  return {
      .name = "train",
      .description = "Trains a network on all ranks of the step",
      .program = "dlflow-train",
      .version = 13,
      .with = object({
          {"model", formed(model_file_form()),
           "File that describes the network, relative to the workflow", kRequired},
          {"data", formed(path_form()), "Folder of the training data", kRequired},
          scratch_field(),
          cache_field(),
          loader_threads_field(),
          {"device", choice({"cpu", "cuda"}),
           "Device to train on. cuda: one GPU per rank; needs precision: {reduction: fast}",
           Presence::Optional, "cpu"},
          {"epochs", integer(1), "Number of passes over the training data", kRequired},
          {"batch", integer(1), "Samples per step, over all ranks; 128 unless given"},
          {"batch_per_rank", integer(1),
           "Instead of batch: samples per step on each rank, so that more ranks take larger steps"},
          {"last_batch", choice({"keep", "drop"}),
           "At the end of an epoch: keep or drop the samples that do not fill a batch",
           Presence::Optional, "keep"},
          {"lr", number_above(0), "Learning rate after warm-up", kRequired},
          {"optimizer", optimizer, "Optimizer and its constants; sgd unless given"},
          {"momentum", number_below(0, 1), "Of sgd and lars: momentum factor", Presence::Optional,
           0.9},
          {"weight_decay", number(0), "Weight decay", Presence::Optional, 0.0},
          {"decay", choice({"weights", "all"}),
           "Parameters that weight_decay applies to. all: biases and batch normalisation, too. "
           "Unless given all, of lars and lamb weights"},
          {"clip_norm", number_above(0), "Maximum norm of the whole gradient"},
          {"shard_optimizer", boolean(),
           "Between nodes, each rank stores the optimizer state of its share of the weights only",
           Presence::Optional, false},
          {"accumulate", integer(1),
           "Number of batches whose gradients make one step, in the memory of one batch",
           Presence::Optional, 1},
          {"activation_memory", formed(size_form()),
           "Most memory of a rank for results of layers and their gradients; what does not fit is "
           "computed again in the backward pass, to the same bits"},
          {"lr_scaling", choice({"linear", "sqrt"}),
           "Multiply lr by (samples per step / base_batch), or by the square root of that"},
          {"base_batch", integer(1),
           "Samples per step for which lr is given; only with lr_scaling"},
          {"groups", list_of(group, 1),
           "Parameters with a learning rate or weight decay of their own; the first that fits "
           "counts"},
          {"start_from", formed(path_form()),
           "Safetensors file or checkpoint with the first weights, for layers of the same names"},
          {"freeze", list_of(text(), 1),
           "Patterns of layers that stay as they are; their batch normalisation goes by its "
           "running "
           "statistics"},
          {"ema", number_below(0, 1),
           "Decay of a running mean of the weights, which is evaluated and saved as the result; 0: "
           "none",
           Presence::Optional, 0.0},
          {"keep_best", choice(metrics),
           "Metric of the held-out samples by which the best epoch's checkpoint is kept, and is "
           "the "
           "result instead of the last"},
          {"stop_early", stop_early, "End before the last epoch if a metric no longer improves"},
          {"label_smoothing", number_below(0, 1),
           "Share of each target that is spread evenly over all classes", Presence::Optional, 0.0},
          {"class_weights", list_of(number_above(0), 1),
           "Factors of each class's part of the loss in training; without, all count alike"},
          {"warmup_epochs", number(0), "Epochs in which the learning rate rises linearly from zero",
           Presence::Optional, 0},
          {"schedule",
           choice({"cosine", "constant", "polynomial", "steps", "one_cycle", "inverse_sqrt"}),
           "Course of the learning rate after warm-up", Presence::Optional, "cosine"},
          {"min_lr", number(0), "Minimum of the learning rate after warm-up; 0 unless given"},
          {"lr_power", number(0), "Of polynomial: the power; 1 unless given"},
          {"lr_steps", list_of(integer(1), 1),
           "Of steps: epochs at whose end the learning rate is multiplied by lr_factor; half and "
           "three quarters of all are the default"},
          {"lr_factor", number_below(0, 1), "Of steps: the factor; 0.1 unless given"},
          {"seed", integer(0), "Seed of initial weights, order of samples and augmentation",
           Presence::Optional, 0},
          {"validation", integer(0),
           "Number of training samples held out to measure the accuracy; a tenth of the data, at "
           "most 5000, unless given"},
          {"sampling", either({choice({"shuffle", "balanced"}), list_of(number_above(0), 1)}),
           "Samples of an epoch: each once, or drawn so that classes are equally frequent or have "
           "these shares",
           Presence::Optional, "shuffle"},
          {"augment", list_of(either({choice({"crop", "flip"}), change})),
           "Random changes of the training images: crop shifts by up to 4 pixels, flip mirrors "
           "left-right, and the keys below",
           Presence::Optional, Json::array()},
          {"precision", precision, "Settings that decide the bits of the result"},
          {"gradients", gradients, "How gradients travel between ranks"},
          {"cooperation", cooperation_shape(), "How ranks train one model together"},
          {"batch_norm", choice({"leaf", "global"}),
           "Batch normalisation over the samples of a leaf or of the whole step",
           Presence::Optional, "leaf"},
          {"normalize", normalize,
           "Normalisation of the images; unless given by mean and variance of the data"},
          {"timeline", integer(0),
           "Number of steps, after the first 10, that are recorded in timeline.json",
           Presence::Optional, 0},
      }),
      .outputs = {{"checkpoints", text(), "The folder of checkpoints"},
                  {"model", text(), "The last checkpoint; with keep_best the best"}},
      .saves_itself = true,
      .alternatives = {{"batch", "batch_per_rank"}},
      .neutral = {"scratch", "cache", "loader_threads", "activation_memory"},
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
          {"from", either({formed(path_form()), list_of(formed(path_form()), 1)}),
           "Folders of checkpoints, or checkpoints", kRequired},
          {"select", formed(selection_form()), "Checkpoint to select", Presence::Optional,
           "latest"},
          {"verify", boolean(),
           "Check the hashes of every checkpoint before the selection, not only of the selected "
           "one",
           Presence::Optional, true},
          {"prune", integer(1),
           "Number of newest checkpoints that stay in each folder, beside the selected one; all "
           "unless "
           "given"},
          {"export", choice({"safetensors", "onnx"}),
           "Format of a further file with the network alone"},
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
      .version = 6,
      .with = object({
          {"checkpoint", formed(path_form()), "Folder of the checkpoint", kRequired},
          {"data", formed(path_form()), "Folder of the test data", kRequired},
          scratch_field(),
          cache_field(),
          loader_threads_field(),
          {"batch", integer(1), "Samples per forward pass; changes no result", Presence::Optional,
           256},
      }),
      .neutral = {"scratch", "cache", "loader_threads"},
      .checkpoint = "checkpoint",
      .data = "data",
      .reads_test_split = true,
      .decisive_resources = [](const Json&) { return std::vector<std::string>{"cpus_per_rank"}; },
  };
}

StepKind predict_kind() {
  return {
      .name = "predict",
      .description = "Writes what a trained network says of each sample of a data set",
      .program = "dlflow-predict",
      .version = 4,
      .with = object({
          {"checkpoint", formed(path_form()), "Folder of the checkpoint", kRequired},
          {"data", formed(path_form()), "Folder of the data", kRequired},
          {"split", choice({"test", "train"}), "Part of the data", Presence::Optional, "test"},
          {"format", choice({"csv", "npy", "netcdf", "parquet"}),
           "csv: number, label, prediction and probability of each sample; npy: all scores, or the "
           "class of each pixel; netcdf, parquet: both",
           Presence::Optional, "csv"},
          loader_threads_field(),
          {"batch", integer(1), "Samples per forward pass", Presence::Optional, 256},
          {"shard", integer(0), "Number of the part of the samples that this job takes, from 0",
           Presence::Optional, 0},
          {"shards", integer(1), "Number of such parts; steps with a matrix divide the samples",
           Presence::Optional, 1},
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

StepKind generate_kind() {
  return {
      .name = "generate",
      .description = "Writes text with a trained language model",
      .program = "dlflow-generate",
      .version = 2,
      .with = object({
          {"checkpoint", formed(path_form()), "Folder of the checkpoint", kRequired},
          {"tokenizer", formed(path_form()),
           "File tokenizer.model beside the training data, of networks of byte pairs; bytes unless "
           "given"},
          {"prompt", text(), "Beginning of each text; unless given, a document begins"},
          {"samples", integer(1), "Number of texts", Presence::Optional, 1},
          {"max_tokens", integer(1), "Maximum number of tokens of a text, without the prompt",
           Presence::Optional, 200},
          {"temperature", number(0),
           "Divisor of the scores: below 1, likely tokens become likelier; 0: always the likeliest",
           Presence::Optional, 1},
          {"top_k", integer(1),
           "Choose among this number of likeliest tokens only; all unless given"},
          {"top_p", number_above(0, 1),
           "Choose among the likeliest tokens that have this probability together",
           Presence::Optional, 1},
          {"seed", integer(0), "Seed of the choices", Presence::Optional, 0},
      }),
      .outputs = {{"text", text(), "The texts, a line <|endoftext|> between two"},
                  {"samples", text(), "The same as JSON Lines, with their tokens"}},
  };
}

}  // namespace

std::vector<std::string> StepKind::no_resources(const Json&) { return {}; }

std::span<const StepKind> step_kinds() {
  static const std::vector<StepKind> kinds = {stage_kind(),      stage_out_kind(), train_kind(),
                                              checkpoint_kind(), evaluate_kind(),  predict_kind(),
                                              generate_kind()};
  return kinds;
}

const StepKind* find_step_kind(std::string_view name) {
  const auto kinds = step_kinds();
  const auto found = std::find_if(kinds.begin(), kinds.end(),
                                  [name](const StepKind& kind) { return kind.name == name; });
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
