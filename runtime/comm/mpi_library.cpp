#include "runtime/comm/mpi_library.h"

#include <filesystem>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/mpi.h"
#include "base/process.h"

namespace dlflow::runtime {
namespace {

namespace fs = std::filesystem;

/// The interfaces that the launcher may use, the likeliest first. srun starts ranks of both.
std::vector<MpiInterface> interfaces() {
  const auto is_set = [](const char* name) { return !environment_variable(name).empty(); };
  if (is_set("OMPI_COMM_WORLD_SIZE")) return {kOpenMpi};
  if (is_set("MPI_LOCALNRANKS") || is_set("MV2_COMM_WORLD_SIZE")) return {kMpich};
  if (is_set("PMI_RANK") && !is_set("PMIX_RANK")) return {kMpich, kOpenMpi};
  return {kOpenMpi, kMpich};
}

fs::path plugin_file(const char* name) {
  return this_program().parent_path().parent_path() / "lib/dlflow" / name;
}

/// The library stays open: its threads and exit handlers outlive MPI_Finalize.
SharedLibrary open_library(const MpiInterface& interface) {
  std::string problems;
  for (const char* name : interface.libraries) {
    try {
      // RTLD_GLOBAL: its components and our plug-in are libraries opened later, which call it.
      return SharedLibrary(name, RTLD_GLOBAL | RTLD_NODELETE);
    } catch (const Error& error) {
      if (problems.empty()) problems = error.what();
    }
  }
  throw Error(Errc::NotFound, problems);
}

}  // namespace

MpiLibrary::MpiLibrary() {
  std::string problems;
  for (const MpiInterface& interface : interfaces()) {
    try {
      library_ = open_library(interface);
      plugin_ = SharedLibrary(plugin_file(interface.plugin), RTLD_NODELETE);
      plugin_name_ = interface.plugin;
      functions_ =
          plugin_->functions<DlflowMpiPluginFunction>(DLFLOW_MPI_PLUGIN_SYMBOL, DLFLOW_MPI_ABI);
      return;
    } catch (const Error& error) {
      problems += (problems.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  throw Error(Errc::NotFound, "the MPI library of this launcher cannot be opened (" + problems +
                                  "); load the module of the launcher's MPI, or set "
                                  "LD_LIBRARY_PATH to the folder of its libraries");
}

std::string MpiLibrary::name() const {
  const std::string text = functions_->library();
  std::istringstream words(text.substr(0, text.find_first_of(",\n")));
  std::string name;
  for (std::string word; words >> word;) name += (name.empty() ? "" : " ") + word;
  return name + ", plug-in " + plugin_name_;
}

}  // namespace dlflow::runtime
