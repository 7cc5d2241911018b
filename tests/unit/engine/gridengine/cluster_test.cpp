#include "engine/gridengine/cluster.h"

#include "base/file.h"
#include "tests/support/catch.h"

using namespace dlflow;

namespace {

// Recorded from SGE 8.1.9.
std::string recorded(const std::string& name) {
  return read_file(std::string(GRIDENGINE_CORPUS) + "/" + name);
}

ClusterLimits cluster() {
  ClusterLimits limits;
  limits.cluster = "ge";
  add_configuration(limits, recorded("qconf-sconf.txt"));
  add_queues(limits, recorded("qhost.xml"));
  add_walltimes(limits, recorded("qconf-sq.txt"));
  return limits;
}

}  // namespace

TEST_CASE("queues are partitions, and no named queue means any of them", "[gridengine]") {
  const ClusterLimits limits = cluster();
  CHECK(limits.max_array_size == 75'000);
  REQUIRE(limits.partitions.size() == 2);
  const PartitionInfo& any = *limits.partition("");
  CHECK(any.name == "any");
  CHECK(any.nodes == 1);
  CHECK(any.node.cores == 4);
  CHECK_FALSE(any.max_walltime);
  const PartitionInfo& queue = *limits.partition("all.q");
  CHECK(queue.max_walltime == std::chrono::hours(24));
  CHECK(queue.node.cores == 4);  // slots
  CHECK(queue.node.memory_bytes > uint64_t{1} << 30);
  CHECK(queue.nodes == 1);
}

TEST_CASE("a host without a memory size has an unknown size", "[gridengine]") {
  const auto memory = [](const std::string& size) {
    std::string hosts = recorded("qhost.xml");
    const std::string name = "<hostvalue name='mem_total'>";
    for (size_t at = hosts.find(name); at != hosts.npos; at = hosts.find(name, at + 1)) {
      const size_t begin = at + name.size();
      hosts.replace(begin, hosts.find('<', begin) - begin, size);
    }
    ClusterLimits limits;
    add_queues(limits, hosts);
    return limits.partition("all.q")->node.memory_bytes;
  };
  CHECK(memory("23.5G") == uint64_t(23.5 * double(1 << 30)));
  CHECK(memory("-") == 0);
  CHECK(memory("-1.0G") == 0);
  CHECK(memory("nanG") == 0);
  CHECK(memory("9999999999G") == 0);
}

TEST_CASE("a walltime limit may differ from host to host, or be infinite", "[gridengine]") {
  const auto walltime = [](const std::string& value) {
    ClusterLimits limits;
    add_walltimes(limits, "qname  long.q\nh_rt   " + value + "\n");
    return limits.partitions.at(0).max_walltime;
  };
  CHECK(walltime("INFINITY") == std::nullopt);
  CHECK(walltime("8:00:00,[node7=4:00:00]") == std::chrono::hours(8));
  CHECK(walltime("3600") == std::chrono::hours(1));
}

TEST_CASE("a detected profile names queue and parallel environment", "[gridengine]") {
  const std::string text = gridengine_profile(cluster(), "mpi\nsmp\n", "all.q");
  CHECK_THAT(text, Catch::Contains("  queue: all.q\n") &&
                       Catch::Contains("  parallel_environment: mpi\n") &&
                       Catch::Contains("  walltime: 1d\n"));
  CHECK_THAT(gridengine_profile(cluster(), "", ""), Catch::Contains("  queue: \"\"\n"));
  CHECK_THROWS_WITH(gridengine_profile(cluster(), "", "al.q"),
                    "ge has no queue 'al.q' among all.q; did you mean 'all.q'?");
}
