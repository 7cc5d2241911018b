#include "engine/model/step_kinds.h"

#include <algorithm>

#include "engine/model/forms.h"

namespace dlflow {
namespace {

constexpr Presence kRequired = Presence::Required;

Field parallel_field() {
  return {"parallel", integer(1), "Transfers at a time", Presence::Optional, 4};
}

Field bandwidth_field() {
  return {"bandwidth", formed(size_form()),
          "Bytes per second of all transfers together; else as "
          "many as come"};
}

StepKind stage_kind() {
  const Shape address = object({
      {"url", formed(url_form()), "Where the manifest is", kRequired},
      {"sha256", formed(sha256_form()), "What its bytes must hash to", kRequired},
  });
  const Shape source = object({
      {"url", formed(url_form()),
       "Where it comes from: a file; a folder, with a / at the end; or a pattern: /data/*.gz",
       kRequired},
      {"sha256", formed(sha256_form()), "What a file's bytes must hash to, before unpacking"},
      {"manifest", either({formed(model_file_form()), address}),
       "Of a folder, pattern or archive: what is in it, as sha256sum prints it"},
      {"commit", formed(commit_form()), "Of a git address: which commit"},
      {"unpack", choice({"none", "gzip", "zip", "tar"}),
       "How each file is packed; tar may be compressed", Presence::Optional, "none"},
      {"name", formed(file_name_form()),
       "What it is called in the step's folder; else the last part of the URL, without the "
       "ending that unpacking takes away"},
  });
  return {
      .name = "stage",
      .description = "Brings files to the run, through a cache that runs share",
      .with = object({{"sources", list_of(source, 1), "The files, in order", kRequired},
                      parallel_field(),
                      bandwidth_field()}),
      .outputs = {{"path", text(), "The folder of the staged files"}},
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
                   "How much of the data a node keeps in memory, for all ranks there", kRequired},
                  {"scratch", formed(size_form()),
                   "And on its own disk, of what does not fit into memory"},
                  {"share", boolean(),
                   "Each node keeps a part of the data for the others, so that it is read once for "
                   "all of them",
                   Presence::Optional, false}}),
          "Each part of the data is read once and kept, as far as it fits; for data with hashes of "
          "its parts (dlflow data pack)"};
}

StepKind stage_out_kind() {
  return {
      .name = "stage-out",
      .description = "Copies results of the run to another place, unless they are there",
      .with = object(
          {{"from", either({formed(path_form()), list_of(formed(path_form()), 1)}),
            "Files and folders", kRequired},
           {"to", formed(destination_form()), "The folder that they are put into", kRequired},
           parallel_field(),
           bandwidth_field()}),
      .outputs = {{"manifest", text(), "What was sent, as sha256sum prints it"}},
      .reuse = StepKind::Reuse::Never,
  };
}

/// Which of its keys goes with which kind is for the training to say.
Shape cooperation_shape() {
  return object({
      {"kind", choice({"synchronous", "local_sgd", "parameter_server", "gossip"}),
       "Which way (docs/user/taxonomy.md)", kRequired},
      {"every", integer(1),
       "local_sgd: steps from one averaging to the next, 8 unless given; gossip: from one exchange "
       "to the next, 1 unless given"},
      {"synchronous_epochs", integer(0),
       "local_sgd: the first epochs, in which weights are averaged after every step"},
      {"servers", integer(1),
       "parameter_server: how many of the ranks, the last, are servers; 1 unless given"},
      {"staleness", either({integer(0), choice({"unbounded"})}),
       "parameter_server: how many steps a worker may be ahead of the slowest; 0: synchronous, "
       "'unbounded': asynchronous, 4 unless given"},
  });
}

/// Exact training gives the same bits for any number of ranks with as many threads each, unless the
/// number of ranks makes the batch or the ranks are not synchronous.
std::vector<std::string> resources_of_training(const Json& with) {
  const Json precision = with.value("precision", Json::object());
  const bool exact =
      precision.is_object() && precision.value("reduction", Json("exact")) == "exact";
  const Json cooperation = with.value("cooperation", Json::object());
  const bool synchronous =
      cooperation.is_object() && cooperation.value("kind", Json("synchronous")) == "synchronous";
  if (exact && synchronous && !with.contains("batch_per_rank")) return {"cpus_per_rank"};
  return {"ranks", "cpus_per_rank"};
}

StepKind train_kind() {
  const Shape constants = either({number(), list_of(number(), 1)});
  const Shape positive = either({number_above(0), list_of(number_above(0), 1)});
  const Shape normalize = object({
      {"mean", constants, "Subtracted from each channel", kRequired},
      {"std", positive, "What each channel is then divided by", kRequired},
  });
  const Shape precision = object({
      {"reduction", choice({"exact", "fast"}),
       "exact: the same weights, bit for bit, for any number of ranks", Presence::Optional,
       "exact"},
      {"leaves", integer(1),
       "Into how many parts a step is divided in exact mode; at most so many ranks have work. "
       "Up to 8 unless given, of at least 32 samples"},
      {"compute", choice({"fp32", "bf16"}),
       "What convolutions and linear layers multiply, on processors with AMX. All else is fp32",
       Presence::Optional, "fp32"},
  });
  const Shape gradients = object({
      {"wire", choice({"fp32", "fp16", "bf16"}),
       "As what they travel between nodes; added in fp32. Needs precision: {reduction: fast}",
       Presence::Optional, "fp32"},
      {"priority", boolean(), "Those of the first layers overtake the others", Presence::Optional,
       true},
      {"compression",
       choice({"fp16", "bf16", "int8", "topk", "mstopk", "randomk", "dgc", "powersgd"}),
       "Less is sent, and what is left out is sent later. Needs precision: {reduction: fast}"},
      {"density", number_between(0, 1),
       "Of topk, mstopk, randomk, dgc: the share that is sent; "
       "0.01 unless given"},
      {"warmup_epochs", integer(0), "Of the same: epochs in which more is sent; 0 unless given"},
      {"aggregation", choice({"all-gather", "gtopk", "hierarchical"}),
       "How what ranks send is added up: hierarchical, by powersgd all-gather, unless given"},
      {"rank", integer(1),
       "Of powersgd: how many rows and columns stand for a matrix; 2 unless "
       "given"},
      {"clip", number(0),
       "Of dgc: norm beyond which gradients are scaled down; 0, no such norm, "
       "unless given"},
  });
  const Shape optimizer = object({
      {"kind", choice({"sgd", "adam", "adamw", "lars", "lamb"}), "Which one", kRequired},
      {"nesterov", boolean(), "Of sgd: Nesterov's momentum; false unless given"},
      {"betas", list_of(number_between(0, 1), 2),
       "Of adam, adamw and lamb: how long they remember; [0.9, 0.999] unless given"},
      {"eps", number(0),
       "Of adam, adamw and lamb: what a root is kept away from zero by; 1e-8 unless given, of lamb "
       "1e-6"},
      {"trust", number(0), "Of lars: its coefficient; 0.001 unless given"},
  });
  return {
      .name = "train",
      .description = "Trains a network on all ranks of the step",
      .version = 4,
      .with = object({
          {"model", formed(model_file_form()),
           "File that describes the network, relative to the workflow", kRequired},
          {"data", formed(path_form()), "Folder of the training data", kRequired},
          scratch_field(),
          cache_field(),
          {"device", choice({"cpu", "cuda"}),
           "What computes. cuda: a GPU for each rank; needs precision: {reduction: fast}",
           Presence::Optional, "cpu"},
          {"epochs", integer(1), "How often the data is gone through", kRequired},
          {"batch", integer(1), "Samples per step, shared out among all ranks; 128 unless given"},
          {"batch_per_rank", integer(1),
           "Instead of batch: samples per step and rank, so that more ranks take larger steps"},
          {"last_batch", choice({"keep", "drop"}),
           "What becomes of the samples at an epoch's end that do not fill a batch",
           Presence::Optional, "keep"},
          {"lr", number_above(0), "Learning rate, once warmed up", kRequired},
          {"optimizer", optimizer, "How weights follow their gradients; sgd unless given"},
          {"momentum", number_between(0, 1), "Of sgd and lars", Presence::Optional, 0.9},
          {"weight_decay", number(0), "How fast weights shrink by themselves", Presence::Optional,
           0.0},
          {"decay", choice({"weights", "all"}),
           "What weight_decay is for. all: biases and batch normalisation, too, unless given, but "
           "with lars and lamb"},
          {"clip_norm", number_above(0), "What the norm of the whole gradient is limited to"},
          {"shard_optimizer", boolean(),
           "Between nodes, each rank keeps the optimizer's state of its share of the weights alone",
           Presence::Optional, false},
          {"accumulate", integer(1),
           "Batches whose gradients make one step, in the memory of one batch", Presence::Optional,
           1},
          {"lr_scaling", choice({"linear", "sqrt"}),
           "How lr, which is for base_batch, follows the samples of a step"},
          {"base_batch", integer(1), "Samples per step that lr is for; with lr_scaling"},
          {"label_smoothing", number_between(0, 1),
           "What share of a target goes to all classes alike", Presence::Optional, 0.0},
          {"warmup_epochs", number(0), "Epochs in which the learning rate rises from zero",
           Presence::Optional, 0},
          {"schedule", choice({"cosine", "constant"}), "The learning rate after warming up",
           Presence::Optional, "cosine"},
          {"seed", integer(0), "What initial weights and the order of samples derive from",
           Presence::Optional, 0},
          {"validation", integer(0),
           "Samples held out of the training data to measure the accuracy; a tenth of it, at most "
           "5000, unless given"},
          {"augment", list_of(choice({"crop", "flip"})), "Random changes of the training pictures",
           Presence::Optional, Json::array()},
          {"precision", precision, "What decides the bits of the result"},
          {"gradients", gradients, "How gradients travel between ranks"},
          {"cooperation", cooperation_shape(), "How ranks train one model together"},
          {"batch_norm", choice({"leaf", "global"}),
           "Batch normalisation over the samples of a leaf or of the whole step",
           Presence::Optional, "leaf"},
          {"normalize", normalize, "How pictures are scaled; else by the data's own statistics"},
          {"timeline", integer(0), "Steps of which timeline.json tells what each rank did when",
           Presence::Optional, 0},
      }),
      .outputs = {{"checkpoints", text(), "The folder of checkpoints"},
                  {"model", text(), "The last checkpoint"}},
      .writes_checkpoints = true,
      .alternatives = {{"batch", "batch_per_rank"}},
      .neutral = {"scratch", "cache"},
      .demands = {{"device", "cuda", "gpus_per_rank"}},
      .decisive_resources = resources_of_training,
  };
}

StepKind checkpoint_kind() {
  return {
      .name = "checkpoint",
      .description = "Selects one of several checkpoints, verifies and exports it",
      .with = object({
          {"from", either({formed(path_form()), list_of(formed(path_form()), 1)}),
           "Folders of checkpoints, or checkpoints", kRequired},
          {"select", formed(selection_form()), "Which one", Presence::Optional, "latest"},
          {"verify", boolean(),
           "Check the hashes of every checkpoint before the choice, not of the chosen one alone",
           Presence::Optional, true},
          {"prune", integer(1),
           "How many of the newest stay in each folder, beside the chosen one; else all of them"},
          {"export", choice({"safetensors"}), "Format of a file with the weights alone"},
      }),
      .outputs = {{"checkpoint", text(), "The folder of the selected checkpoint"},
                  {"export", text(), "The exported file; only with the key export"}},
  };
}

StepKind evaluate_kind() {
  return {
      .name = "evaluate",
      .description = "Measures a trained network on data that it has not seen",
      .with = object({
          {"checkpoint", formed(path_form()), "Folder of the checkpoint", kRequired},
          {"data", formed(path_form()), "Folder of the test data", kRequired},
          scratch_field(),
          cache_field(),
          {"batch", integer(1), "Samples that are computed together; changes no result",
           Presence::Optional, 256},
      }),
      .neutral = {"scratch", "cache"},
      .decisive_resources = [](const Json&) { return std::vector<std::string>{"cpus_per_rank"}; },
  };
}

}  // namespace

std::vector<std::string> StepKind::no_resources(const Json&) { return {}; }

std::span<const StepKind> step_kinds() {
  static const std::vector<StepKind> kinds = {stage_kind(), stage_out_kind(), train_kind(),
                                              checkpoint_kind(), evaluate_kind()};
  return kinds;
}

const StepKind* find_step_kind(std::string_view name) {
  const auto kinds = step_kinds();
  const auto found = std::find_if(kinds.begin(), kinds.end(),
                                  [name](const StepKind& kind) { return kind.name == name; });
  return found == kinds.end() ? nullptr : &*found;
}

}  // namespace dlflow
