#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/model/shape.h"
#include "engine/model/workflow.h"

/// The step kinds for `uses:`: their `with` keys, outputs and version, and how the engine runs
/// them. This is the one table for the parser, the JSON Schema, the fingerprint, the supervisor and
/// the documentation: no other code compares the name of a kind (tests/layering checks this). The
/// step programs read their `with` from with.json.
namespace dlflow {

/// A value of a key of `with` that requires one of the step's resources and a file beside dlflow.
struct Demand {
  std::string key, value;
  std::string resource;  ///< "gpus_per_rank", must be above 0
  std::string file;      ///< "libdlflow_cuda.so"
  std::string advice;    ///< what to do if the file is missing
};

struct StepKind {
  std::string name;
  std::string description;
  std::string program = {};  ///< beside dlflow; empty: dlflow itself, as `dlflow step NAME`
  int version = 1;  ///< raised when the same `with` gives another result; part of the fingerprint
  Shape with;       ///< an object
  std::vector<Field> outputs = {};  ///< what ${{ steps.NAME.outputs.KEY }} may name
  /// When asked to stop, it saves and exits with 75, and the next pass continues from there.
  /// `checkpoint:` sets how often it saves otherwise.
  bool saves_itself = false;
  std::vector<std::pair<std::string, std::string>> alternatives = {};  ///< mutually exclusive keys
  std::vector<std::string> neutral = {};  ///< keys of `with` that do not change results
  std::vector<Demand> demands = {};
  /// The key of `with` that lists the files to copy into the run. The outputs are copies, so
  /// bundles leave them out, and the metrics are not results.
  std::string sources = {};
  /// The key of `with` that holds the candidates to select from. outputs.json names the selected
  /// one, by `from` of the output.
  std::string selects_from = {};
  std::string model = {};            ///< the key of `with` that names the file of a network
  std::string checkpoint = {};       ///< the key that names a trained network
  std::string data = {};             ///< the key that names the folder of a data set
  bool needs_answers = true;         ///< it must hold what the network's loss compares with
  bool reads_test_split = false;     ///< reads its test split unless `split` is given
  bool divides_into_leaves = false;  ///< its ranks share the leaves of a step (base/leaves.h)

  /// The jobs that may reuse its results.
  enum class Reuse {
    Shared,  ///< later runs, also of other users through a shared cache
    Own,     ///< later runs of the same user
    Never,   ///< none: its effects lie outside of the run
  };
  Reuse reuse = Reuse::Shared;

  /// The resources that its result depends on, by their names in `resources:`.
  std::vector<std::string> (*decisive_resources)(const Json& with) = [](const Json&) {
    return std::vector<std::string>();
  };
};

/// All kinds, in the order the documentation lists them.
std::span<const StepKind> step_kinds();

/// The kind called `name`, or null.
const StepKind* find_step_kind(std::string_view name);

/// Whether steps of the kind `uses` copy files into the run (StepKind::sources).
bool copies_sources(std::string_view uses);

/// Whether a step that is asked to stop saves its state, to continue from there: some kinds always
/// do, a command does if it has `checkpoint:`.
bool can_save(std::string_view uses, const std::optional<CheckpointPolicy>& policy);

}  // namespace dlflow
