#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>

/// Whether an image's MPI and the launcher of its ranks match. If not, each rank is usually rank 0
/// of 1, and all silently do the same work.
namespace dlflow {

/// "Open MPI 4" or "MPICH", as far as versions matter to a launcher; Intel MPI and MVAPICH count as
/// MPICH, since they have its interface.
using MpiName = std::string;

/// The MPI according to `mpirun --version`; empty if unknown.
MpiName mpi_of_launcher(std::string_view version);

/// The MPIs according to the names of libraries, in the usual folders and beside the programs of
/// PATH.
std::set<MpiName> mpis_of_image(const std::filesystem::path& rootfs,
                                const std::map<std::string, std::string>& environment);

/// The problem with starting ranks in image `name`, with advice; empty if both match, if the image
/// has no MPI, or if the launcher's MPI is unknown.
std::string mpi_mismatch(const MpiName& launcher, const std::set<MpiName>& image,
                         const std::string& name);

}  // namespace dlflow
