#include "engine/ranks/rank_plan.h"

#include "base/error.h"
#include "base/parse_json.h"

namespace dlflow {

Json to_json(const RankPlan& plan) {
  Json nodes = Json::array();
  for (const RankNode& node : plan.nodes) nodes.push_back({node.name, node.ranks});
  return {{"ranks", plan.ranks},
          {"told", plan.told},
          {"one_per_node", plan.one_per_node},
          {"nodes", nodes},
          {"master_address", plan.master_address},
          {"master_port", plan.master_port},
          {"asks_by", plan.asks_by},
          {"asked_by", plan.asked_by},
          {"lost_rank", plan.lost_rank.string()},
          {"given", plan.given}};
}

RankPlan rank_plan_from_json(const Json& json) {
  try {
    RankPlan plan;
    json.at("ranks").get_to(plan.ranks);
    json.at("told").get_to(plan.told);
    json.at("one_per_node").get_to(plan.one_per_node);
    for (const Json& node : json.at("nodes")) {
      plan.nodes.push_back({node.at(0).get<std::string>(), node.at(1).get<int>()});
    }
    json.at("master_address").get_to(plan.master_address);
    json.at("master_port").get_to(plan.master_port);
    json.at("asks_by").get_to(plan.asks_by);
    json.at("asked_by").get_to(plan.asked_by);
    plan.lost_rank = json.at("lost_rank").get<std::string>();
    json.at("given").get_to(plan.given);
    return plan;
  } catch (const Json::exception& error) {
    throw Error(Errc::Corrupt, std::string("not a plan of ranks: ") + reason_of(error));
  }
}

}  // namespace dlflow
