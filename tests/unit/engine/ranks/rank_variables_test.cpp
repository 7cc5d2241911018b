#include "engine/ranks/rank_variables.h"

#include "tests/support/catch.h"

using namespace dlflow;

namespace {

using Variables = std::map<std::string, std::string>;

/// Five ranks on three nodes.
RankPlan five_ranks() {
  RankPlan plan;
  plan.ranks = 5;
  plan.nodes = {{"n1", 2}, {"n2", 2}, {"n3", 1}};
  plan.master_address = "n1";
  plan.master_port = 23456;
  return plan;
}

Variables told(const RankPlan& plan, const Variables& environment, const std::string& host = "n1") {
  const auto variable = [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  return rank_variables(plan, variable, host);
}

Variables rank_3_of_5() {
  return {{"RANK", "3"},
          {"WORLD_SIZE", "5"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "2"},
          {"GROUP_RANK", "1"},
          {"NODE_RANK", "1"},
          {"MASTER_ADDR", "n1"},
          {"MASTER_PORT", "23456"},
          {"TORCHELASTIC_RUN_ID", "none"},
          {"DLFLOW_RANK", "3"},
          {"DLFLOW_LOCAL_RANK", "1"},
          {"DLFLOW_LOCAL_RANKS", "2"},
          {"DLFLOW_NODE_RANK", "1"},
          {"DLFLOW_NODES", "3"}};
}

}  // namespace

TEST_CASE("a rank gets the same variables from every launcher", "[ranks]") {
  const Variables script = {{"SLURM_PROCID", "0"},        {"SLURM_LOCALID", "0"},
                            {"SLURM_NODEID", "0"},        {"SLURM_NTASKS", "5"},
                            {"SLURM_JOB_NUM_NODES", "3"}, {"SLURM_TASKS_PER_NODE", "2(x2),1"}};
  const auto in_slurm = [&](Variables own) {
    own.insert(script.begin(), script.end());
    return own;
  };
  const Variables open_mpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                              {"OMPI_COMM_WORLD_SIZE", "5"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                              {"PMIX_RANK", "3"}};
  CHECK(told(five_ranks(), open_mpi, "n2") == rank_3_of_5());
  CHECK(told(five_ranks(), open_mpi, "n2.cluster.example") == rank_3_of_5());
  CHECK(told(five_ranks(), in_slurm(open_mpi), "n2") == rank_3_of_5());
  CHECK(told(five_ranks(),
             in_slurm({{"PMI_RANK", "3"},
                       {"PMI_SIZE", "5"},
                       {"MPI_LOCALRANKID", "1"},
                       {"MPI_LOCALNRANKS", "2"}}),
             "n2") == rank_3_of_5());
  CHECK(told(five_ranks(),
             {{"MV2_COMM_WORLD_RANK", "3"},
              {"MV2_COMM_WORLD_SIZE", "5"},
              {"MV2_COMM_WORLD_LOCAL_RANK", "1"},
              {"MV2_COMM_WORLD_LOCAL_SIZE", "2"}},
             "n2") == rank_3_of_5());
  const Variables srun = {{"SLURM_PROCID", "3"},
                          {"SLURM_STEP_NUM_TASKS", "5"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_NODEID", "1"},
                          {"SLURM_STEP_NUM_NODES", "3"},
                          {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                          {"SLURM_TASKS_PER_NODE", "17"},
                          {"PMI_RANK", "3"},
                          {"PMI_SIZE", "5"},
                          {"PMIX_RANK", "3"}};
  CHECK(told(five_ranks(), srun, "somewhere") == rank_3_of_5());
}

TEST_CASE("only a rank that srun started looks like a task of SLURM to Lightning and others",
          "[ranks]") {
  const auto hidden = [](const RankPlan& plan, const Variables& environment) {
    return misleading_variables(plan, [&](const char* name) {
      const auto found = environment.find(name);
      return found == environment.end() ? std::string() : found->second;
    });
  };
  const Variables script = {{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_NTASKS", "5"}};
  Variables by_srun = script, by_mpirun = script;
  by_srun.insert({{"SLURM_STEP_NUM_TASKS", "5"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"}});
  by_mpirun.insert({{"OMPI_COMM_WORLD_RANK", "3"},
                    {"OMPI_COMM_WORLD_SIZE", "5"},
                    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}});
  const std::vector<std::string> all = {"SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID"};
  CHECK(hidden(five_ranks(), by_srun).empty());
  CHECK(hidden(five_ranks(), by_mpirun) == all);
  RankPlan one;
  one.nodes = {{"n1", 1}};
  CHECK(hidden(one, script) == all);
  one.told = false;
  CHECK(hidden(one, script) == all);
  one.given = {"SLURM_NTASKS"};
  CHECK(hidden(one, script) == std::vector<std::string>{"SLURM_PROCID", "SLURM_LOCALID"});
  RankPlan per_node = five_ranks();
  per_node.one_per_node = true;
  CHECK(hidden(per_node, script) == std::vector<std::string>{"SLURM_NTASKS"});
}

TEST_CASE("variables that a launcher does not set are left out, not guessed", "[ranks]") {
  const Variables nothing = told(five_ranks(), {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "5"}});
  CHECK(nothing == Variables{{"MASTER_ADDR", "n1"}, {"MASTER_PORT", "23456"}});
  const Variables alone = told(five_ranks(), {{"PMIX_RANK", "3"}}, "n2");
  CHECK(alone.at("RANK") == "3");
  CHECK(alone.at("NODE_RANK") == "1");
  CHECK_FALSE(alone.contains("LOCAL_RANK"));
  const Variables elsewhere = told(five_ranks(), {{"PMIX_RANK", "3"}}, "x");
  CHECK_FALSE(elsewhere.contains("NODE_RANK"));
  // An srun that gives no number of tasks per node, or not for this node.
  for (const char* counts : {"", "2"}) {
    const Variables srun = told(five_ranks(),
                                {{"SLURM_PROCID", "3"},
                                 {"SLURM_STEP_NUM_TASKS", "5"},
                                 {"SLURM_LOCALID", "1"},
                                 {"SLURM_NODEID", "1"},
                                 {"SLURM_STEP_TASKS_PER_NODE", counts}},
                                "somewhere");
    CHECK(srun.at("LOCAL_RANK") == "1");
    CHECK_FALSE(srun.contains("LOCAL_WORLD_SIZE"));
  }
  // Variables of a launcher that has started this whole job as one of its own programs.
  const Variables outer = {{"OMPI_COMM_WORLD_RANK", "1"},
                           {"OMPI_COMM_WORLD_SIZE", "2"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                           {"PMIX_RANK", "4"}};
  CHECK(told(five_ranks(), outer).at("RANK") == "4");
}

TEST_CASE("all ranks of one node have its number, and their own local ranks", "[ranks]") {
  RankPlan plan = five_ranks();
  plan.nodes = {{"n1", 5}};
  plan.master_address = "127.0.0.1";
  const Variables values = told(plan, {{"PMIX_RANK", "3"}}, "another-name");
  CHECK(values.at("LOCAL_RANK") == "3");
  CHECK(values.at("LOCAL_WORLD_SIZE") == "5");
  CHECK(values.at("NODE_RANK") == "0");
}

TEST_CASE("one rank is rank 0 of 1, whatever launcher dlflow itself runs under", "[ranks]") {
  RankPlan plan;
  plan.nodes = {{"n1", 1}};
  plan.master_port = 23456;
  const Variables values = told(plan, {{"SLURM_PROCID", "3"}, {"PMIX_RANK", "4"}});
  CHECK(values.at("RANK") == "0");
  CHECK(values.at("WORLD_SIZE") == "1");
  CHECK(values.at("LOCAL_WORLD_SIZE") == "1");
  CHECK(values.at("MASTER_ADDR") == "127.0.0.1");
}

TEST_CASE("a program whose step sets no ranks gets no launcher's number of ranks", "[ranks]") {
  RankPlan plan;
  plan.told = false;
  plan.nodes = {{"n1", 1}};
  plan.master_port = 23456;
  CHECK(told(plan, {}) == Variables{{"DLFLOW_RANK", "0"},
                                    {"DLFLOW_LOCAL_RANK", "0"},
                                    {"DLFLOW_LOCAL_RANKS", "1"},
                                    {"DLFLOW_NODE_RANK", "0"},
                                    {"DLFLOW_NODES", "1"}});
}

TEST_CASE("a program per node gets its node's variables, and no rank's", "[ranks]") {
  RankPlan plan = five_ranks();
  plan.one_per_node = true;
  const Variables expected = {
      {"NODE_RANK", "2"},          {"DLFLOW_NODE_RANK", "2"},   {"DLFLOW_NODES", "3"},
      {"DLFLOW_LOCAL_RANKS", "1"}, {"MASTER_ADDR", "n1"},       {"MASTER_PORT", "23456"},
      {"PET_NNODES", "3"},         {"PET_NODE_RANK", "2"},      {"PET_NPROC_PER_NODE", "1"},
      {"PET_MASTER_ADDR", "n1"},   {"PET_MASTER_PORT", "23456"}};
  CHECK(told(plan, {{"OMPI_COMM_WORLD_RANK", "2"},
                    {"OMPI_COMM_WORLD_SIZE", "3"},
                    {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                    {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}) == expected);
  CHECK(told(plan, {{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "3"}}) == expected);
  // A rank for which the plan has no node.
  CHECK(told(plan, {{"PMIX_RANK", "3"}}).at("DLFLOW_LOCAL_RANKS") == "1");
}

TEST_CASE("variables that the step sets stay", "[ranks]") {
  RankPlan plan = five_ranks();
  plan.given = {"MASTER_PORT", "LOCAL_RANK"};
  const Variables own = {{"PMIX_RANK", "3"}, {"MASTER_PORT", "29500"}};
  const Variables values = told(plan, own);
  CHECK_FALSE(values.contains("MASTER_PORT"));
  CHECK_FALSE(values.contains("LOCAL_RANK"));
  CHECK(values.at("RANK") == "3");
  plan.one_per_node = true;
  CHECK(told(plan, {{"PMIX_RANK", "2"}, {"MASTER_PORT", "29500"}}).at("PET_MASTER_PORT") ==
        "29500");
}
