#include "engine/ranks/rank_plan.h"

#include "tests/support/catch.h"
#include "tests/support/error_of.h"

using namespace dlflow;

TEST_CASE("a plan of ranks is read from its file as it was written", "[ranks]") {
  RankPlan plan;
  plan.ranks = 3;
  plan.told = false;
  plan.one_per_node = true;
  plan.nodes = {{"n1", 2}, {"n2", 1}};
  plan.master_address = "n1";
  plan.master_port = 23456;
  plan.given = {"RANK"};
  plan.asks_by = 15;
  plan.asked_by = 10;
  plan.lost_rank = "/run/lost-rank-1";
  CHECK(rank_plan_from_json(json_of(plan)) == plan);
  CHECK(plan.num_programs() == 2);
  plan.one_per_node = false;
  CHECK(plan.num_programs() == 3);
  CHECK_THROWS_AS(rank_plan_from_json(Json{{"ranks", 1}}), Error);
}
