#include "engine/ranks/rank_plan.h"

#include "base/error.h"
#include "base/parse_json.h"

namespace dlflow {

void to_json(Json& json, const RankNode& node) { json = {node.name, node.ranks}; }

void from_json(const Json& json, RankNode& node) {
  json.at(0).get_to(node.name);
  json.at(1).get_to(node.ranks);
}

RankPlan rank_plan_from_json(const Json& json) {
  try {
    return from_fields<RankPlan>(json);
  } catch (const Json::exception& error) {
    throw Error(Errc::Corrupt, std::string("not a plan of ranks: ") + reason_of(error));
  }
}

}  // namespace dlflow
