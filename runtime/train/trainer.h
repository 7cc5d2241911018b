#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "runtime/collectives/rules.h"
#include "runtime/comm/communicator.h"
#include "runtime/data/step_images.h"
#include "runtime/gpu/replica.h"
#include "runtime/nn/model.h"
#include "runtime/settings/checkpoint_policy.h"
#include "runtime/settings/train_settings.h"
#include "runtime/train/divergence.h"
#include "runtime/train/start_weights.h"

/// The training loop of one rank: epochs of steps, with checkpoints, evaluation and stops. A
/// Cooperation (runtime/cooperation) defines how ranks train one model together.
namespace dlflow::runtime {

/// The inputs of one training run.
struct TrainingJob {
  TrainSettings settings;
  Model model;
  Dataset data;               ///< the training split; validation samples are held out of it
  std::string data_identity;  ///< compared between ranks (SharedSplit); empty: hash all of `data`
  std::shared_ptr<StepImages> images;  ///< verifies images of `data` when they are read, if set
  std::vector<std::string> class_names = {};  ///< in the order of labels; saved in checkpoints
  std::vector<std::string> origin = {};       ///< TrainingState::origin
  CheckpointPolicy policy;
  std::filesystem::path checkpoints;  ///< folder; training resumes from its newest checkpoint
  std::filesystem::path metrics;      ///< file to append to; rank 0 writes
  std::filesystem::path timeline;     ///< file to write, if the settings ask for one; rank 0 writes
  RuleSet rules;                      ///< all-reduce rules; may be empty
  size_t loader_threads = 1;          ///< LoaderOptions::threads
  size_t prefetch = 0;                ///< batches that a thread prepares ahead
  GpuLibraries gpu = {};              ///< for `device: cuda`
  std::optional<StartWeights> start = std::nullopt;  ///< opened by train(), if the settings say so
};

/// How a run ended.
struct TrainingEnd {
  bool finished = false;             ///< false: stopped by request, and everything is saved
  std::filesystem::path checkpoint;  ///< the newest; the path is set on rank 0 only
  Json summary;  ///< flat object of numbers: accuracy, loss, images_per_s (rate.h), ...
};

/// Trains until `job.settings.epochs` are done, or until `stop` becomes true on any rank; then all
/// ranks save at the end of the same step. The result depends only on data, model, settings and the
/// number of ranks: a run that was stopped or killed and resumes from its checkpoints ends with the
/// same bits as an uninterrupted one.
///
/// Collective. Throws Error{InvalidInput} if the ranks were given different things or a checkpoint
/// is of another run, Diverged ("loss is NaN at step 12 (rank 1)", "the gradient of conv2.weight is
/// NaN or infinite at step 12") on every rank; the last checkpoint is of an earlier step.
TrainingEnd train(Communicator& comm, TrainingJob job, const std::atomic<bool>& stop);

}  // namespace dlflow::runtime
