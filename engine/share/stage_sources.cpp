#include "engine/share/stage_sources.h"

#include <set>

#include "engine/model/step_kinds.h"

namespace dlflow {

std::vector<StageSource> stage_sources(const Workflow& workflow) {
  std::vector<StageSource> sources;
  std::set<std::string> seen;
  for (const Step& step : workflow.steps) {
    if (!copies_sources(step.uses)) continue;
    const std::string& key = find_step_kind(step.uses)->sources;
    Context known;
    known.params = &workflow.params;
    for (const Json& element : matrix_elements(step.matrix)) {
      if (!has_open_axis(step.matrix)) known.matrix = &element;  // else a source may be open, too
      const Json with = step.with.evaluate_known(known);
      for (const Json& source : with.value(key, Json::array())) {
        if (source.is_object() && seen.insert(source.dump()).second) {
          sources.push_back({&step, source});
        }
      }
      if (!step.with.has_references()) break;
    }
  }
  return sources;
}

}  // namespace dlflow
