#include "runtime/train/trained_network.h"

#include "base/error.h"
#include "runtime/train/shared_checkpoint.h"
#include "runtime/train/training_state.h"

namespace dlflow::runtime {

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

}  // namespace dlflow::runtime
