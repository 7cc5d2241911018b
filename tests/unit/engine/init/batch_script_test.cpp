#include "engine/init/batch_script.h"

#include <map>
#include <string>

#include "tests/support/catch.h"

using namespace dlflow;
using Catch::Contains;

namespace {

std::string step_of(const std::string& text) {
  return step_of_batch_script(read_batch_script(text), "job", "", {});
}

}  // namespace

TEST_CASE("lines of sbatch become resources", "[init]") {
  const std::string step = step_of(R"(#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node 4
#SBATCH -c 3
#SBATCH --mem=16G
#SBATCH -t 1-02:30:00  # long
#SBATCH --gres=gpu:a100:4
##SBATCH --exclusive
srun --mpi=pmix -n 8 python train.py
)");
  CHECK_THAT(step, Contains("resources: {nodes: 2, ranks_per_node: 4, cpus_per_rank: 3, "
                            "gpus_per_rank: 1, memory: 32GiB, walltime: 1590m}"));
  CHECK_THAT(step, Contains("    run: |\n      python train.py\n"));
  CHECK_THAT(step, !Contains("exclusive"));
}

TEST_CASE("durations and sizes are read as in sbatch", "[init]") {
  const auto resources = [](const std::string& options) {
    return step_of("#SBATCH " + options + "\n./a.sh\n");
  };
  CHECK_THAT(resources("-t 90"), Contains("walltime: 90m"));
  CHECK_THAT(resources("-t 1:30"), Contains("walltime: 2m"));
  CHECK_THAT(resources("-t 02:00:00"), Contains("walltime: 2h"));
  CHECK_THAT(resources("-t 2-0"), Contains("walltime: 48h"));
  CHECK_THAT(resources("-t 1-12:30"), Contains("walltime: 2190m"));
  CHECK_THAT(resources("-t UNLIMITED"), !Contains("walltime"));
  CHECK_THAT(resources("-n4 --mem-per-cpu=500 -c 2"),
             Contains("{ranks: 4, cpus_per_rank: 2, memory_per_rank: 1000MiB, walltime: 1h}"));
}

TEST_CASE("an array becomes a matrix", "[init]") {
  const std::string step = step_of("#SBATCH -a 0-6:3,9%2\npython fit.py $SLURM_ARRAY_TASK_ID\n");
  CHECK_THAT(step, Contains("matrix: {task: [0, 3, 6, 9], max_parallel: 2}"));
  CHECK_THAT(step, Contains("env: {SLURM_ARRAY_TASK_ID: \"${{ matrix.task }}\"}"));
}

TEST_CASE("modules and environments are loaded by the step", "[init]") {
  const std::string step = step_of(R"(#SBATCH -n 1
module purge
module load cuda/12.2 gcc
source /home/me/gpt/bin/activate
python train.py --cores ${SLURM_CPUS_PER_TASK:-1} --job $SLURM_JOB_PARTITION
)");
  CHECK_THAT(step,
             Contains("environment: {modules: [\"cuda/12.2\", \"gcc\"], venv: \"/home/me/gpt\"}"));
  CHECK_THAT(step, Contains("      python train.py --cores $DLFLOW_CPUS_PER_RANK --job"));
  CHECK_THAT(step, Contains("# Left out, since dlflow does it: module purge\n"));
  CHECK_THAT(step, Contains("# Set only on a cluster: SLURM_JOB_PARTITION\n"));
  CHECK_THAT(step_of("conda activate gpt\n./a\n"), Contains("environment: {conda: \"gpt\"}"));
}

TEST_CASE("torchrun starts a rank for each GPU, and needs no options", "[init]") {
  const std::string step = step_of(R"(#SBATCH --nodes=2
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=32
export MASTER_ADDR=$(scontrol show hostnames | head -n 1)
srun torchrun --nnodes=$SLURM_NNODES --nproc_per_node 4 \
    --rdzv_endpoint=$MASTER_ADDR:29500 train.py
)");
  CHECK_THAT(step, Contains("    launch: node\n    resources: {nodes: 2, ranks_per_node: 4, "
                            "cpus_per_rank: 8, gpus_per_rank: 1, "));
  CHECK_THAT(step, Contains("    run: |\n      torchrun train.py\n"));
}

TEST_CASE("options are read as by sbatch", "[init]") {
  const auto options = read_batch_script(
                           "#SBATCH --exclusive --mem=1G -n4 -J a -N 2 --gres=gpu\n"
                           "#SBATCH --gres=lscratch:200\n")
                           .options;
  CHECK(options == std::map<std::string, std::string>{{"exclusive", ""},
                                                      {"gres", "gpu:1"},
                                                      {"gres=lscratch:200", ""},
                                                      {"job-name", "a"},
                                                      {"mem", "1G"},
                                                      {"nodes", "2"},
                                                      {"ntasks", "4"}});
  CHECK_THROWS_WITH(step_of("#SBATCH -a 0-99999999\n./a\n"), Contains("at most 10000 numbers"));
  CHECK_THROWS_WITH(step_of("#SBATCH -a $N\n./a\n"), Contains("write 1-8, or 0,2,5"));
  CHECK_THROWS_WITH(step_of(std::string(300'000, 'a')), Contains("more than 4000 bytes"));
}

TEST_CASE("launchers are removed with their options", "[init]") {
  const auto body = [](const std::string& line) { return read_batch_script(line + "\n").body; };
  CHECK(body("srun -n 4 --exclusive --cpu-bind=cores ./a -n 3") == "./a -n 3");
  CHECK(body("srun ./a") == "./a");
  CHECK(body("OMP_NUM_THREADS=2 mpirun -np 4 --bind-to core -x PATH ./a") ==
        "OMP_NUM_THREADS=2 ./a");
  CHECK(body("./srun a\n  indented") == "./srun a\n  indented");
}

TEST_CASE("lines without an equivalent are named", "[init]") {
  const std::string step = step_of(R"(#SBATCH -p gpu -A lab --mail-type=END
#SBATCH -d afterok:123
./a.sh
)");
  CHECK_THAT(step, Contains("--account=lab, --mail-type=END, --partition=gpu\n"));
  CHECK_THAT(step, Contains("# --dependency=afterok:123: add that script as a step"));
  const std::string other = step_of(R"(#SBATCH -o log.txt
srun hostname
for i in 1 2; do srun python fit.py --out "results/model_${i}.pt"; done
sbatch next.sh
)");
  CHECK_THAT(other, Contains("    # Left out, since dlflow does it: srun\n"
                             "    # Left out, since dlflow does it: --output\n"
                             "    # Check srun, sbatch: each rank runs it; "));
  CHECK_THAT(other, Contains("name it: outputs: {model: \"results/model_*.pt\"}\n"));
  CHECK_THAT(step, Contains("name it: outputs: {model: model.pt}\n"));
}
