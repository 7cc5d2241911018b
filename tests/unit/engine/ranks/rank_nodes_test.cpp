#include "engine/ranks/rank_nodes.h"

#include <map>

#include "base/process.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;

namespace {

using Nodes = std::vector<RankNode>;
using Names = std::vector<std::string>;
using Counts = std::vector<int>;

Nodes nodes_of(int ranks, const std::map<std::string, std::string>& environment, int cpus = 1) {
  return rank_nodes(ranks, cpus, [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  });
}

}  // namespace

TEST_CASE("a list of nodes is read as SLURM writes it", "[ranks]") {
  CHECK(expand_node_list("") == Names{});
  CHECK(expand_node_list("login") == Names{"login"});
  CHECK(expand_node_list("a,b-1") == Names{"a", "b-1"});
  CHECK(expand_node_list("n[1-3,08,9-11],m") ==
        Names{"n1", "n2", "n3", "n08", "n9", "n10", "n11", "m"});
  CHECK(expand_node_list("r[01-02]n[1-2]") == Names{"r01n1", "r01n2", "r02n1", "r02n2"});
  CHECK(expand_node_list("a,n[1,2") == Names{"a", "n[1,2"});  // cut off
  CHECK(expand_node_list("n[1-2]-ib") == Names{"n1-ib", "n2-ib"});
  CHECK(expand_node_list("n[7]-2") == Names{"n7-2"});
  CHECK(expand_node_list("r[1-2]n[3,5]") == Names{"r1n3", "r1n5", "r2n3", "r2n5"});
}

TEST_CASE("numbers of tasks are read as SLURM writes them", "[ranks]") {
  CHECK(expand_task_counts("") == Counts{});
  CHECK(expand_task_counts("2") == Counts{2});
  CHECK(expand_task_counts("2(x3),1") == Counts{2, 2, 2, 1});
}

TEST_CASE("the nodes of a job and their ranks are read from its batch system", "[ranks]") {
  CHECK(nodes_of(4, {}) == Nodes{{host_name(), 4}});
  const std::map<std::string, std::string> slurm = {{"SLURM_JOB_NODELIST", "n[1-3]"},
                                                    {"SLURM_TASKS_PER_NODE", "2(x2),1"}};
  CHECK(nodes_of(5, slurm) == Nodes{{"n1", 2}, {"n2", 2}, {"n3", 1}});
  CHECK(nodes_of(3, slurm) == Nodes{{"n1", 2}, {"n2", 1}});
  CHECK(nodes_of(1, slurm) == Nodes{{host_name(), 1}});
  CHECK(nodes_of(8, slurm) == Nodes{{"n1", 3}, {"n2", 3}, {"n3", 2}});

  const test::TempDir folder;
  const std::string hosts = folder.write("hosts", "a 4 q@a UNDEFINED\nb 2 q@b UNDEFINED\n");
  CHECK(nodes_of(3, {{"PE_HOSTFILE", hosts}}, 2) == Nodes{{"a", 2}, {"b", 1}});
  CHECK(nodes_of(4, {{"PE_HOSTFILE", "/nowhere"}}) == Nodes{{host_name(), 4}});
}
