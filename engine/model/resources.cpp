#include "base/error.h"
#include "base/units.h"
#include "engine/model/check.h"
#include "engine/model/workflow.h"
#include "engine/model/workflow_shape.h"

namespace dlflow {

Resources resources_from_json(const Json& resources) {
  Mistakes mistakes({}, {});
  const Names data;
  Checker checker(mistakes, data);
  const auto checked =
      checker.check(*to_yaml(resources, {}), resources_shape(), Scope::Nothing, {"resources", ""});
  if (!checked) throw Error(Errc::InvalidInput, mistakes.take().front().message);
  Resources result;
  result.ranks = checked->at("ranks");
  result.cpus_per_rank = checked->at("cpus_per_rank");
  result.gpus_per_rank = checked->at("gpus_per_rank");
  if (const auto memory = checked->find("memory"); memory != checked->end()) {
    result.memory_bytes = memory->is_string() ? parse_size(memory->get_ref<const std::string&>())
                                              : memory->get<uint64_t>();
  }
  if (const auto walltime = checked->find("walltime"); walltime != checked->end()) {
    result.walltime = parse_duration(walltime->get_ref<const std::string&>());
  }
  return result;
}

Json to_json(const Resources& resources) {
  Json json = {{"ranks", resources.ranks},
               {"cpus_per_rank", resources.cpus_per_rank},
               {"gpus_per_rank", resources.gpus_per_rank}};
  if (resources.memory_bytes > 0) json["memory"] = resources.memory_bytes;
  if (resources.walltime.count() > 0) {
    json["walltime"] = std::to_string(resources.walltime.count()) + "s";
  }
  return json;
}

}  // namespace dlflow
