#include "engine/supervisor/resolve.h"

#include <filesystem>

#include "base/error.h"
#include "engine/decide/needed_inputs.h"
#include "engine/model/expression.h"
#include "engine/plan/layout.h"

namespace dlflow {
namespace {

/// Places of data that a parent named, in the form that the program needs: those that the plan knew
/// are absolute already.
void make_absolute(const JobSpec& spec, Json& with) {
  visit_paths(spec.uses, with, [&](const std::string&, PathRole role, Json& path) {
    if (role != PathRole::Outside || spec.base.empty()) return;
    const std::filesystem::path place = path.get<std::string>();
    if (place.is_relative()) path = (spec.base / place).lexically_normal().string();
  });
}

}  // namespace

ResolvedJob resolve(const JobSpec& spec, const std::vector<ParentResult>& parents) {
  const Json run = {{"id", spec.run}, {"directory", spec.run_directory.string()}};
  Json params = spec.params;
  params.update(spec.late_params);
  Context context;
  context.params = &params;
  context.matrix = &spec.element;
  context.run = &run;
  context.steps = [&](const Reference& reference) {
    return parent_value(reference, spec.element, parents);
  };
  const Template condition(spec.condition);
  const Template with(spec.with);
  const Template environment(spec.environment);
  // A script is no template: `${{` in it was refused by the parser.
  const Template command(spec.run_command.is_string() ? Json() : spec.run_command);
  std::vector<Reference> references;
  for (const Template* part : {&condition, &with, &environment, &command}) {
    references.insert(references.end(), part->references().begin(), part->references().end());
  }
  const Inputs inputs = judge(references, spec, parents);
  if (inputs.kind == Inputs::Kind::Block) throw Block{words(inputs)};
  if (inputs.kind == Inputs::Kind::Skip) throw Skip{words(inputs)};
  if (!spec.condition.is_null()) {
    const Json wanted = condition.evaluate(context);
    if (!wanted.is_boolean()) {
      throw Error(Errc::InvalidInput,
                  "`if:` is " + wanted.dump() + ", which is neither true nor false");
    }
    if (!wanted.get<bool>()) throw Skip{"its `if:` is false"};
  }
  ResolvedJob job;
  job.with = with.evaluate(context);
  make_absolute(spec, job.with);
  job.environment = environment.evaluate(context);
  if (spec.uses.empty()) job.ranks = plan_ranks(spec, job.environment);
  job.run_command = spec.run_command.is_string() ? spec.run_command : command.evaluate(context);
  return job;
}

}  // namespace dlflow
