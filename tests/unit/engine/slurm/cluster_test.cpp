#include "engine/slurm/detect.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace std::chrono_literals;

TEST_CASE("a cluster's description is read", "[slurm]") {
  const ClusterLimits limits = parse_config(R"(Configuration data as of 2026-11-21T08:00:00
AccountingStorageType   = accounting_storage/slurmdbd
ClusterName             = alpha
MaxArraySize            = 1001
MaxJobCount             = 10000
SLURM_VERSION           = 22.05.8

Slurmctld(primary) at alpha is UP
)");
  CHECK(limits.cluster == "alpha");
  CHECK(limits.version == "22.05.8");
  CHECK(limits.max_array_size == 1001);
  CHECK(limits.max_job_count == 10000);
  CHECK(limits.accounting);
  CHECK_FALSE(parse_config("AccountingStorageType   = (null)\n").accounting);
  CHECK_FALSE(parse_config("AccountingStorageType   = accounting_storage/none\n").accounting);
}

TEST_CASE("partitions and their nodes are read", "[slurm]") {
  ClusterLimits limits;
  limits.partitions = parse_partitions(
      "PartitionName=batch AllowGroups=ALL Default=YES DefaultTime=NONE MaxNodes=UNLIMITED "
      "MaxTime=UNLIMITED State=UP TotalCPUs=4 TotalNodes=2\n"
      "PartitionName=gpu Default=NO DefaultTime=00:15:00 MaxNodes=20 MaxTime=3-00:00:00 "
      "State=DRAIN TotalNodes=80\n"
      "PartitionName=plain TotalNodes=1\n");
  add_nodes(limits.partitions,
            "batch|2|2|8000|(null)\ngpu|40|40|382000|gpu:v100:4(S:0-1),nvme:3600\n"
            "gpu|40|40+|190000|gpu:v100:2\nnobody|1|1|1|gpu:9\nodd line\n"
            "batch|1|1|1|gpu\n"  // one GPU, as written by SLURM for a request without a number
            "plain|1|1|1|gpu:8\n");

  REQUIRE(limits.partitions.size() == 3);
  const PartitionInfo& batch = *limits.partition("");
  CHECK(batch.name == "batch");
  CHECK_FALSE(batch.max_walltime);
  CHECK_FALSE(batch.max_nodes);
  CHECK(batch.nodes == 2);
  CHECK(batch.node == NodeShape{2, uint64_t{8000} << 20, 1});
  const PartitionInfo& gpu = *limits.partition("gpu");
  CHECK(gpu.max_walltime == 72h);
  CHECK(gpu.default_walltime == 15min);
  CHECK(gpu.max_nodes == 20);
  CHECK_FALSE(gpu.is_up);
  CHECK(gpu.node == NodeShape{40, uint64_t{382000} << 20, 4});
  CHECK(gpu.gpu_types == std::vector<std::string>{"v100"});
  CHECK(limits.partition("plain")->node.gpus == 8);
  CHECK(limits.partition("plain")->gpu_types.empty());  // a number is not a type
  CHECK(limits.partition("short") == nullptr);
}
