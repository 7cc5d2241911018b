#include "runtime/train/same_job.h"

#include "runtime/train/agreement.h"
#include "runtime/train/compression_settings.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/shared_split.h"

namespace dlflow::runtime {
TrainingJob same_on_all(Communicator& comm, TrainingJob job) {
  const Activity activity(comm, "reads the training data");
  const TrainSettings& s = job.settings;
  const auto& compression = s.gradients.compression;
  const int workers = num_workers(s.cooperation, comm.size());
  const Json settings = {{"device", int(s.device)},
                         {"epochs", s.epochs},
                         {"batch", runtime::global_batch(s, workers)},
                         {"cooperation", how_gradients_are_added(s, comm.size())},
                         {"exact", s.precision.exact},
                         {"leaves", runtime::num_leaves(s, comm.size())},
                         {"compute", int(s.precision.compute)},
                         {"batch_norm", s.joint_batch_norm},
                         {"wire", int(s.gradients.wire)},
                         {"priority", s.gradients.priority},
                         {"compression", compression ? to_text(*compression) : ""},
                         {"lr", s.lr},
                         {"update", to_json(s.update)},
                         {"label_smoothing", s.label_smoothing},
                         {"warmup_epochs", s.warmup_epochs},
                         {"schedule", int(s.schedule)},
                         {"validation", s.validation},
                         {"crop", s.augmentation.crop_padding},
                         {"flip", s.augmentation.flip},
                         {"mean", s.normalize.value_or(PixelStatistics{}).mean},
                         {"std", s.normalize.value_or(PixelStatistics{}).std},
                         {"checkpoint", {int(job.policy.unit), job.policy.every}}};
  require_agreement(comm, {{"the model", job.model.text},
                           {"the training data",
                            job.data_identity.empty() ? content_hash(job.data) : job.data_identity},
                           {"the seed", std::to_string(s.seed)},
                           {"the settings", settings.dump()}});
  require_fitting(job.model, job.data, "the training data");
  return job;
}

}  // namespace dlflow::runtime
