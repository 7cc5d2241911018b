#pragma once

#include <span>

/// MPI as engine and runtime use it: its launchers, and the binary interfaces of its libraries.
namespace dlflow {

/// The variables in which a launcher gives each process its rank and the number of ranks.
struct MpiLauncher {
  const char* name;  ///< its name in messages
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

/// SLURM's launcher. It comes after those of MPI libraries, since a program that mpirun starts in a
/// SLURM job also has the variables of the job's script. Of those, `size` is srun's alone.
constexpr MpiLauncher kSrun = {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
                               nullptr};

/// The beginnings of the variables by which launchers give a process its place.
constexpr const char* kPlaceVariables[] = {"SLURM_", "PMIX_", "PMI_", "OMPI_"};

/// The launchers of MPI libraries.
constexpr MpiLauncher kMpiLaunchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"MPICH or Intel MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}};

/// MPI libraries with one binary interface; one plug-in serves them (MpiLibrary in runtime/comm).
struct MpiInterface {
  const char* plugin;
  std::span<const char* const> libraries;  ///< the names of their files
};

constexpr const char* kOpenMpiLibraries[] = {"libmpi.so.40"};
constexpr const char* kMpichLibraries[] = {"libmpi.so.12", "libmpich.so.12", "libmpi_cray.so.12"};
constexpr MpiInterface kOpenMpi = {"libdlflow_mpi_40.so", kOpenMpiLibraries};
constexpr MpiInterface kMpich = {"libdlflow_mpi_12.so", kMpichLibraries};

}  // namespace dlflow
