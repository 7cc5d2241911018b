#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/model/shape.h"

/// The step kinds that `uses:` names: their `with` keys, outputs and version. One table for the
/// parser, the JSON Schema, the fingerprint and the documentation; the step programs read what it
/// describes from with.json.
namespace dlflow {

/// A value of a key of `with` that cannot do without one of the step's resources.
struct Demand {
  std::string key, value;
  std::string resource;  ///< "gpus_per_rank", above 0
};

struct StepKind {
  std::string name;
  std::string description;
  int version = 1;  ///< raised when the same `with` gives another result; enters the fingerprint
  Shape with;       ///< an object
  std::vector<Field> outputs = {};  ///< what ${{ steps.NAME.outputs.KEY }} may name
  bool writes_checkpoints = false;  ///< `checkpoint:` has a meaning
  std::vector<std::pair<std::string, std::string>> alternatives = {};  ///< not both in `with`
  std::vector<std::string> neutral = {};  ///< keys of `with` that no result depends on
  std::vector<Demand> demands = {};

  /// The jobs that may reuse a result of it.
  enum class Reuse {
    Shared,  ///< later runs, and through a shared cache other users
    Own,     ///< later runs of the same user
    Never,   ///< nobody: what it does is outside of the run
  };
  Reuse reuse = Reuse::Shared;

  /// The resources that its result depends on, by their names in `resources:`.
  std::vector<std::string> (*decisive_resources)(const Json& with) = no_resources;
  static std::vector<std::string> no_resources(const Json& with);
};

/// All kinds, in the order the documentation lists them.
std::span<const StepKind> step_kinds();

/// The kind called `name`, or null.
const StepKind* find_step_kind(std::string_view name);

}  // namespace dlflow
