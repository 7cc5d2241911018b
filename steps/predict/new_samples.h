#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/shard.h"
#include "runtime/nn/model.h"

/// Samples that no data set holds: pictures, rows of a table, or texts, which become the input of a
/// network as in its training.
namespace dlflow::steps {

/// How training made its samples. A part that is not known is empty.
struct Origin {
  runtime::Reshaping reshaping;
  std::vector<std::string> features, targets;  ///< columns of a table of numbers
  std::string text;                            ///< column of a table of texts

  /// Returns this with every known part of `given` in place of its own.
  Origin replaced_by(const Origin& given) const;
};

/// Reads TrainingState::origin.
Origin origin_of(const std::vector<std::string>& lines);

/// Why a sample cannot be read, by its number; empty: it can.
using Faults = std::vector<std::string>;

struct NewSamples {
  std::string noun;                  ///< "file" or "row": the kind of `names`
  std::vector<std::string> names;    ///< "cat/1.png", or the number of a row
  std::vector<std::string> targets;  ///< names of the numbers that the network gives, or none
  Faults faults;                     ///< of all samples

  /// Reads samples. Unreadable ones become zeros, with an entry in `faults`.
  std::function<runtime::Dataset(runtime::IndexRange, Faults& faults)> read;

  size_t num_left_out() const {
    return size_t(std::ranges::count_if(faults, [](const auto& fault) { return !fault.empty(); }));
  }
};

/// A network's input, and what its samples look like.
struct InputRules {
  const runtime::Model& model;
  const Origin& origin;
  std::string tokenizer;  ///< Vocabulary::id() of its tokens; empty: not known
  size_t threads = 1;     ///< that decode pictures
};

/// Opens `place`: a picture or a folder of pictures at any depth, a table, or a text or a folder of
/// texts, as the network's input demands. Throws Error: NotFound if there are none, InvalidInput if
/// the network reads another kind, or if the checkpoint lacks what is needed, with the option that
/// gives it. The references of `rules` must outlive the result.
NewSamples open_new_samples(const std::filesystem::path& place, const InputRules& rules);

}  // namespace dlflow::steps
