#include "engine/model/train_with.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/forms.h"

namespace dlflow {
namespace {

Shape normalize_shape() {
  const Shape constants = either({number(), list_of(number(), 1)});
  const Shape positive = either({number_above(0), list_of(number_above(0), 1)});
  return object({
      {"mean", constants, "Subtracted from each channel", kRequired},
      {"std", positive, "Divisor of each channel, after that", kRequired},
  });
}

Shape precision_shape() {
  return object({
      {"reduction", choice({"exact", "fast"}),
       "exact: the same weights, bit for bit, on any number of ranks", kOptional, "exact"},
      {"leaves", integer(1),
       "Exact mode: number of parts of a step, which limits the ranks that have work; up to 8, of "
       "at least 32 samples, unless given"},
      {"compute", choice({"fp32", "bf16", "tf32"}),
       "Precision of products in convolutions and linear layers and of values between layers; bf16 "
       "needs AMX, tf32 `device: cuda`. The rest is fp32",
       kOptional, "fp32"},
  });
}

Shape gradients_shape() {
  return object({
      {"wire", choice({"fp32", "fp16", "bf16"}),
       "Precision of gradients between nodes; they are added in fp32. fp16 and bf16 need "
       "`reduction: fast`",
       kOptional, "fp32"},
      {"priority", boolean(),
       "Send gradients of the first layers, which the next step needs first, before the others; "
       "changes no bit",
       kOptional, true},
      {"compression",
       choice({"fp16", "bf16", "int8", "topk", "mstopk", "randomk", "dgc", "powersgd"}),
       "Method that compresses gradients (docs/user/compression.md). Needs `reduction: fast`; not "
       "with wire"},
      {"density", number_above(0, 1),
       "For topk, mstopk, randomk, dgc: share of the gradient that is sent; 0.01 unless given"},
      {"warmup_epochs", integer(0),
       "For topk, mstopk, randomk, dgc: first epochs, in which more is sent; 0 unless given"},
      {"aggregation", choice({"all-gather", "gtopk", "hierarchical"}),
       "How compressed gradients are summed. powersgd has all-gather only; hierarchical unless "
       "given"},
      {"rank", integer(1),
       "For powersgd: rank of the two factors of each gradient matrix; 2 unless given"},
      {"clip", number(0),
       "For dgc: each rank scales a bucket of gradients down to the norm clip / √ranks; 0, no "
       "limit, unless given"},
  });
}

Shape optimizer_shape() {
  return object({
      {"kind", choice({"sgd", "adam", "adamw", "rmsprop", "adagrad", "lars", "lamb"}),
       "Name of the optimizer", kRequired},
      {"nesterov", boolean(), "For sgd: use Nesterov momentum; false unless given"},
      {"betas", list_of(number_below(0, 1), 2, 2),
       "For adam, adamw and lamb: decay rates of the running means of the gradient and of its "
       "square; [0.9, 0.999] unless given"},
      {"eps", number(0),
       "For all but sgd and lars: added to the denominator for numerical stability; 1e-8, for lamb "
       "1e-6, for adagrad 1e-10, unless given"},
      {"alpha", number_below(0, 1),
       "For rmsprop: decay rate of the running mean of the gradient's square; 0.99 unless given"},
      {"trust", number(0), "For lars: trust coefficient; 0.001 unless given"},
  });
}

Shape group_shape() {
  return object({
      {"match", text(), "Pattern of parameters' names: `fc.*`, `*.bias`", kRequired},
      {"lr_multiplier", number_above(0), "Factor of the learning rate; 1 unless given"},
      {"weight_decay", number(0),
       "Weight decay of the group, regardless of decay; that of all parameters unless given"},
  });
}

/// The shape of `augment`, except for crop and flip.
Shape change_shape() {
  return object({
      {"resized_crop", number_above(0, 1),
       "Crop to at least this share of the picture, with sides from 3:4 to 4:3, and enlarge it"},
      {"rotate", number_above(0, 180), "Rotate by up to this many degrees either way"},
      {"brightness", number_above(0, 1), "Multiply the pixels by a factor from 1 - x to 1 + x"},
      {"contrast", number_above(0, 1),
       "Multiply the distance to the picture's mean grey by a factor from 1 - x to 1 + x"},
      {"saturation", number_above(0, 1),
       "Multiply the distance to the pixel's grey by a factor from 1 - x to 1 + x"},
      {"cutout", integer(1), "Side in pixels of a square that gets the mean colour"},
      {"mixup", number_between(0.05, 1),
       "Mix each picture and its label with another one; the share is drawn from Beta(x, x)"},
      {"cutmix", number_between(0.05, 1),
       "Replace a box of each picture by that of another; its share of the area is drawn in "
       "the same way, and labels are mixed"},
  });
}

std::vector<std::string> metric_names() {
  return {"loss", "accuracy",   "top5", "f1",   "auc",           "rmse",
          "mae",  "perplexity", "iou",  "dice", "pixel_accuracy"};
}

Shape stop_early_shape() {
  return object({
      {"metric", choice(metric_names()),
       "Metric of the held-out samples; less is better for loss, rmse, mae and perplexity",
       kRequired},
      {"patience", integer(1),
       "Number of epochs in a row without improvement after which the training ends. patience, "
       "reach or both are required"},
      {"min_change", number(0), "Only a larger change counts as an improvement; 0 unless given"},
      {"reach", number(0),
       "Value of the metric that ends the training; metrics.json gives the epoch as reached_epoch"},
  });
}

/// The training program checks which keys go with which kind.
Shape cooperation_shape() {
  return object({
      {"kind",
       choice({"synchronous", "local_sgd", "elastic", "parameter_server", "gossip", "pairwise"}),
       "Way to cooperate (docs/user/taxonomy.md)", kRequired},
      {"every", integer(1),
       "local_sgd: number of steps between averagings; elastic, gossip, pairwise: between "
       "exchanges; 8, for gossip and pairwise 1, unless given"},
      {"rate", number_above(0, 1),
       "elastic: share of the distance to the ranks' mean that the center moves in an exchange; "
       "0.9 unless given"},
      {"synchronous_epochs", integer(0),
       "local_sgd: number of first epochs in which weights are averaged after every step"},
      {"servers", integer(1),
       "parameter_server: number of ranks, counted from the last, that are servers; 1 unless "
       "given"},
      {"staleness", either({integer(0), choice({"unbounded"})}),
       "parameter_server: maximum number of steps between the fastest worker and the slowest; 0: "
       "synchronous, 'unbounded': asynchronous; 4 unless given"},
  });
}

std::vector<Field> data_and_steps() {
  return {
      {"model", formed(kModelFileForm), "File that describes the network, relative to the workflow",
       kRequired},
      {"data", formed(kPathForm), "Folder of the training data", kRequired},
      scratch_field(),
      loader_threads_field(),
      {"device", choice({"cpu", "cuda"}, {{"gpu", "write cuda"}}),
       "Device to train on. cuda: one GPU per rank (gpus_per_rank: 1); needs `reduction: fast` "
       "(docs/user/gpu.md)",
       kOptional, "cpu"},
      {"epochs", integer(1),
       "Number of passes over the training data; at least as many as a checkpoint already has",
       kRequired},
      {"batch", integer(1), "Samples per step, over all ranks; 128 unless given"},
      {"batch_per_rank", integer(1),
       "Instead of batch: samples per step on each rank, so that more ranks take larger steps"},
      {"last_batch", choice({"keep", "drop"}),
       "At the end of an epoch: keep or drop the samples that do not fill a batch", kOptional,
       "keep"},
  };
}

std::vector<Field> updates() {
  return {
      {"lr", number_above(0), "Learning rate after warm-up", kRequired},
      {"optimizer", optimizer_shape(), "Optimizer and its constants; sgd unless given"},
      {"momentum", number_below(0, 1), "For sgd and lars: momentum factor", kOptional, 0.9},
      {"weight_decay", number(0),
       "Weight decay: decoupled for adamw, an L2 penalty in the gradient for sgd, adam, rmsprop "
       "and adagrad",
       kOptional, 0.0},
      {"decay", choice({"weights", "all"}),
       "Parameters that weight_decay applies to. all: also biases and batch normalisation; all, "
       "for lars and lamb weights, unless given"},
      {"clip_norm", number_above(0),
       "Maximum norm of the whole gradient; a larger gradient is scaled down to it"},
      {"shard_optimizer", boolean(),
       "Between nodes, each rank stores the optimizer state of its share of the weights only "
       "(ZeRO-1); changes no bit",
       kOptional, false},
      {"accumulate", integer(1),
       "Number of batches whose gradients make one step, in the memory of one batch", kOptional, 1},
      {"activation_memory", formed(kSizeForm),
       "Maximum memory of a rank for results of layers and their gradients; what does not fit is "
       "recomputed, with the same bits"},
      {"lr_scaling", choice({"linear", "sqrt"}),
       "Multiply lr by (samples per step / base_batch), or by the square root of that"},
      {"base_batch", integer(1), "Samples per step for which lr is given; only with lr_scaling"},
      {"groups", list_of(group_shape(), 1),
       "Parameters with a learning rate or weight decay of their own; the first group whose "
       "pattern matches counts"},
  };
}

std::vector<Field> beginning_and_end() {
  return {
      {"start_from", formed(kPathForm),
       "Safetensors file or checkpoint with the first weights; random numbers unless given"},
      {"freeze", list_of(text(), 1), "Patterns of layers whose weights do not change"},
      {"ema", number_below(0, 1),
       "Decay of a running mean of weights and statistics over the steps, such as 0.999. The mean "
       "is evaluated, saved and exported; 0: none",
       kOptional, 0.0},
      {"keep_best", choice(metric_names()),
       "Metric of the held-out samples; the best epoch's checkpoint is kept, too, and is the "
       "output model"},
      {"stop_early", stop_early_shape(),
       "End before the last epoch if a metric no longer improves, or is good enough"},
      {"label_smoothing", number_below(0, 1),
       "Share of each target that is spread evenly over all classes; for losses with cross-entropy",
       kOptional, 0.0},
      {"class_weights", list_of(number_above(0), 1),
       "Factors of each class's part of the training loss, one per class: PyTorch's weight with "
       "the sum divided by samples"},
  };
}

std::vector<Field> schedule() {
  return {
      {"warmup_epochs", number(0),
       "Number of first epochs in which the learning rate rises linearly from zero", kOptional, 0},
      {"schedule",
       choice({"cosine", "constant", "polynomial", "steps", "one_cycle", "inverse_sqrt"}),
       "Schedule of the learning rate after warm-up", kOptional, "cosine"},
      {"min_lr", number(0),
       "Minimum of the learning rate after warm-up, where cosine, polynomial and one_cycle end; 0 "
       "unless given"},
      {"lr_power", number(0), "For polynomial: the power. 1 is a straight line; 1 unless given"},
      {"lr_steps", list_of(integer(1), 1),
       "For steps: epochs at whose end the learning rate is multiplied by lr_factor; half and "
       "three quarters of epochs unless given"},
      {"lr_factor", number_below(0, 1), "For steps: the factor; 0.1 unless given"},
  };
}

std::vector<Field> samples() {
  return {
      {"seed", integer(0), "Seed of initial weights, order of samples and augmentation", kOptional,
       0},
      {"validation", integer(0),
       "Number of training samples held out for metrics. Not allowed with a validation split; a "
       "tenth, at most 5000, unless given"},
      {"sampling", either({choice({"shuffle", "balanced"}), list_of(number_above(0), 1)}),
       "Samples of an epoch: each once, or drawn so that all classes are equally frequent or have "
       "these shares",
       kOptional, "shuffle"},
      {"augment", list_of(either({choice({"crop", "flip"}), change_shape()})),
       "Random changes of the training images: crop (by up to 4 pixels), flip (left-right), or a "
       "mapping",
       kOptional, Json::array()},
  };
}

std::vector<Field> ranks() {
  return {
      {"precision", precision_shape(), "Settings that decide the bits of the result"},
      {"gradients", gradients_shape(), "How gradients travel between ranks"},
      {"cooperation", cooperation_shape(), "How ranks train one model together"},
      {"batch_norm", choice({"leaf", "global"}),
       "Batch normalisation over the samples of a leaf, or over those of the whole step", kOptional,
       "leaf"},
      {"normalize", normalize_shape(),
       "Normalisation of the images, a number or one per channel; measured from the data unless "
       "given"},
      {"timeline", integer(0),
       "Number of steps, after the first 10, that are recorded in timeline.json", kOptional, 0},
  };
}

}  // namespace

Shape train_with() {
  std::vector<Field> all;
  for (auto part : {data_and_steps, updates, beginning_and_end, schedule, samples, ranks}) {
    std::ranges::move(part(), std::back_inserter(all));
  }
  return data_step(std::move(all));
}

Field scratch_field() {
  return {"scratch", boolean(),
          "Each node reads the data from a copy on its own disk; changes no result", kOptional,
          false};
}

Shape data_step(std::vector<Field> fields) {
  Shape with = object(std::move(fields));
  with.former = {
      {"cache",
       "; a cache of data is no longer kept: leave it out, or write 'scratch: true', which "
       "copies the data to each node's own disk"},
  };
  return with;
}

Field loader_threads_field() {
  return {"loader_threads", integer(1),
          "Threads of each rank that prepare samples, up to 256. Changes no result; cpus_per_rank "
          "for JPEG, else 1, unless given"};
}

bool trains_exactly(const Json& with) {
  const Json precision = with.value("precision", Json::object());
  const Json cooperation = with.value("cooperation", Json::object());
  return precision.is_object() && precision.value("reduction", Json("exact")) == "exact" &&
         cooperation.is_object() && cooperation.value("kind", Json("synchronous")) == "synchronous";
}

}  // namespace dlflow
