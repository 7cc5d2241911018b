#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/model/shape.h"
#include "engine/model/workflow.h"

/// The step kinds that `uses:` names: their `with` keys, outputs and version, and what the engine
/// must know to run them. One table for the parser, the JSON Schema, the fingerprint, the
/// supervisor and the documentation: nobody else compares a kind's name (tests/layering looks). The
/// step programs read what it describes from with.json.
namespace dlflow {

/// A value of a key of `with` that cannot do without one of the step's resources, and without a
/// file beside dlflow.
struct Demand {
  std::string key, value;
  std::string resource;  ///< "gpus_per_rank", above 0
  std::string file;      ///< "libdlflow_cuda.so"
  std::string advice;    ///< what to do where the file is missing
};

struct StepKind {
  std::string name;
  std::string description;
  std::string program = {};  ///< beside dlflow; empty: dlflow itself, as `dlflow step NAME`
  int version = 1;  ///< raised when the same `with` gives another result; enters the fingerprint
  Shape with;       ///< an object
  std::vector<Field> outputs = {};  ///< what ${{ steps.NAME.outputs.KEY }} may name
  /// Asked to stop, it saves and ends with 75, and the next pass goes on from there. `checkpoint:`
  /// says how often it saves besides.
  bool saves_itself = false;
  std::vector<std::pair<std::string, std::string>> alternatives = {};  ///< not both in `with`
  std::vector<std::string> neutral = {};  ///< keys of `with` that no result depends on
  std::vector<Demand> demands = {};
  /// The key of `with` that lists the files it copies into the run. Its outputs are copies, so no
  /// bundle has them, and its metrics are no results.
  std::string sources = {};
  /// The key of `with` that holds what it selects one of. It tells which in outputs.json, by
  /// `from` of the output.
  std::string selects_from = {};
  std::string model = {};            ///< the key of `with` that names the file of a network
  std::string checkpoint = {};       ///< the key that names a trained network
  std::string data = {};             ///< the key that names the folder of a data set
  bool needs_answers = true;         ///< of it: what the network's loss compares with
  bool reads_test_split = false;     ///< of it, instead of the training split, unless `split` says
  bool divides_into_leaves = false;  ///< its ranks share the leaves of a step (base/leaves.h)

  /// The jobs that may reuse a result of it.
  enum class Reuse {
    Shared,  ///< later runs, and through a shared cache other users
    Own,     ///< later runs of the same user
    Never,   ///< nobody: what it does is outside of the run
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

/// Whether a step that is asked to stop saves its state and goes on from there: its kind always
/// does, a command if it has `checkpoint:`.
bool can_save(std::string_view uses, const std::optional<CheckpointPolicy>& policy);

}  // namespace dlflow
