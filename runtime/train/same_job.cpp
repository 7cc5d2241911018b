#include "runtime/train/same_job.h"

#include <vector>

#include "runtime/settings/parts.h"
#include "runtime/train/agreement.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/settings_kept.h"
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
                         {"wire", int(s.gradients.wire)},
                         {"priority", s.gradients.priority},
                         {"compression", compression ? to_text(*compression) : ""},
                         {"optimizer", name(s.update.optimizer.kind)},
                         {"shard_optimizer", s.update.shard_optimizer},
                         {"accumulate", s.update.accumulate},
                         {"kept", settings_kept(s)},
                         {"checkpoint", {int(job.policy.unit), job.policy.every}}};
  if (job.data_identity.empty()) job.data_identity = content_hash(job.data);
  require_agreement(comm, {{"the model", job.model.text},
                           {"the training data", job.data_identity},
                           {"the seed", std::to_string(s.seed)},
                           {"the settings", settings.dump()}});
  require_fitting(job.model, job.data, "the training data");
  return job;
}

void require_same_arithmetic(Communicator& comm, const WeightLayout& layout,
                             const std::string& arithmetic, bool exact) {
  const std::string advice =
      "start all ranks on processors of one kind with one build, or with ONEDNN_MAX_CPU_ISA set to "
      "what all of them have (AVX2)";
  std::vector<CommonValue> values = {
      {"the order of the weights in memory", layout.formats(), arithmetic, advice}};
  if (exact) {
    values.push_back({"the arithmetic", arithmetic, arithmetic,
                      advice + ", or with precision: {reduction: fast}"});
  }
  require_agreement(comm, values);
}

}  // namespace dlflow::runtime
