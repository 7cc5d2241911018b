#include "runtime/train/trained_network.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "runtime/data/loader.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/node_view.h"
#include "runtime/train/training_state.h"

namespace dlflow::runtime {
namespace {

/// Returns the scores of texts in rows of the model's full length, with 0 behind the end of a text.
std::span<const float> in_whole_rows(const Model& model, const Leaf& texts,
                                     std::span<const float> scores, std::vector<float>& rows) {
  const size_t whole = size_t(model.num_scores()), position = size_t(model.num_classes());
  rows.assign(texts.count() * whole, 0);
  for (size_t k = 0; k < texts.count(); ++k) {
    const auto own =
        scores.subspan(k * texts.length * position, size_t(texts.targets[k]) * position);
    std::ranges::copy(own, rows.begin() + std::ptrdiff_t(k * whole));
  }
  return rows;
}

}  // namespace

TrainedNetwork load_trained_network(Communicator& comm, const std::filesystem::path& step_folder,
                                    size_t batch) {
  const Checkpoint checkpoint = load_shared_checkpoint(comm, step_folder);
  if (checkpoint.info.model.empty()) {
    throw Error(
        Errc::InvalidInput,
        "checkpoint: " + step_folder.string() +
            " was saved by a Python script, and only that script defines its network; use it in a "
            "script that reports with dlflow.report() what `require:` checks");
  }
  const Model model = parse_model(checkpoint.info.model, step_folder.string());
  require_weights(checkpoint, model);
  const TrainingState state = training_state_of(checkpoint);
  NetworkSet networks(model, int64_t(batch), Network::Mode::Inference);
  HugeBuffer weights(networks.layout()->size());
  load_weights(checkpoint, *networks.layout(), weights.floats());
  networks.use_weights(weights.floats());
  return {
      model,           state.normalization, state.classes, std::move(networks), std::move(weights),
      state.tokenizer, state.origin};
}

void require_same_tokens(const TrainedNetwork& network, const Dataset& dataset,
                         const std::string& name) {
  const bool known = !network.tokenizer.empty() && !dataset.tokenizer.empty();
  if (!known || network.tokenizer == dataset.tokenizer) return;
  throw Error(Errc::InvalidInput,
              name +
                  ": its tokens are from another tokenizer than the network's; pack it with "
                  "--tokenizer and the tokenizer.model of the training data");
}

void predict(const Communicator& comm, TrainedNetwork& network, const OrderedSamples& samples,
             IndexRange batches, const std::function<void(const Prediction&)>& take) {
  const Dataset& dataset = samples.dataset;
  Loader loader = samples.loader();
  loader.seek(0, batches.first);
  const bool draws_masks = has_masks(network.model.loss) && !dataset.has_masks;
  std::vector<float> no_masks, rows;
  for (size_t i = batches.first; i < batches.first + batches.count; ++i) {
    const Leaf part = next_batch(comm, loader, samples.images).leaves[0];
    Network& computing = network.networks.get(int64_t(part.count()), 0, int64_t(part.length));
    if (draws_masks) {
      no_masks.assign(part.count() * dataset.shape.height * dataset.shape.width, float(kNoClass));
    }
    computing.forward(part.images, part.labels,
                      draws_masks ? std::span<const float>(no_masks) : part.targets);
    const std::span<const float> scores = computing.scores();
    if (network.model.loss == LossKind::NextToken && dataset.has_texts()) {
      take({i * samples.batch, part.labels, {}, in_whole_rows(network.model, part, scores, rows)});
    } else {
      const bool has_lengths = dataset.has_texts();
      take({i * samples.batch, part.labels, has_lengths ? std::span<const float>() : part.targets,
            scores});
    }
  }
}

}  // namespace dlflow::runtime
