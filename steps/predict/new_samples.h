#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/shard.h"
#include "runtime/nn/model.h"

/// Samples that no data set holds: pictures, rows of a table, or texts.
namespace dlflow::steps {

struct NewSamples {
  std::string noun;                  ///< "file" or "row": the kind of `names`
  std::vector<std::string> names;    ///< "cat/1.png", or the number of a row
  std::vector<std::string> targets;  ///< names of the numbers that the network gives, if known
  std::vector<std::string> faults;   ///< why a sample cannot be read; empty: it can

  /// Reads samples as in training. Unreadable ones become zeros, with an entry in `faults`.
  std::function<runtime::Dataset(runtime::IndexRange, std::vector<std::string>& faults)> read;
  std::vector<std::string> notes = {};  ///< likely mistakes in a table, a line each
};

/// Opens `place` as the network's input demands: a picture or a folder of pictures at any depth, a
/// table, or a text or a folder of texts. Throws Error: NotFound if there are none, InvalidInput if
/// the network reads another kind, or if `origin` lacks what is needed.
/// \param origin  TrainingState::origin
/// \param tokenizer  of the network; empty: not known
NewSamples open_new_samples(const std::filesystem::path& place, const runtime::Model& model,
                            const std::vector<std::string>& origin, const std::string& tokenizer);

}  // namespace dlflow::steps
