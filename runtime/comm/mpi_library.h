#pragma once

#include <optional>
#include <string>

#include "runtime/comm/mpi_plugin_abi.h"
#include "runtime/comm/shared_library.h"

namespace dlflow::runtime {

/// The MPI library of the launcher that started this process, opened at run time: no program links
/// one. Ranks find each other only with their launcher's own library; with another, each would be
/// rank 0 of 1. So the launcher's variables select the binary interface, and the loader finds the
/// file, in LD_LIBRARY_PATH and the system's folders. The plug-in for that interface
/// (mpi_plugin_abi.h) lies in ../lib/dlflow relative to the program's folder, also within a run.
class MpiLibrary {
 public:
  /// Throws Error{NotFound} with the files that were tried and a remedy.
  MpiLibrary();

  /// "Open MPI v4.1.4, plug-in libdlflow_mpi_40.so"; requires initialized MPI.
  std::string name() const;

  const DlflowMpiPlugin* functions() const { return functions_; }

 private:
  std::optional<SharedLibrary> library_, plugin_;
  std::string plugin_name_;
  const DlflowMpiPlugin* functions_ = nullptr;
};

}  // namespace dlflow::runtime
