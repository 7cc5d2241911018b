#pragma once

#include <filesystem>
#include <memory>

#include "engine/backend/backend.h"
#include "engine/backend/machine.h"

namespace dlflow {

/// LocalBackend: runs jobs as processes of this machine, as many at a time as its cores, memory and
/// GPUs allow. They are started by a launcher (local_launcher.h) and outlive this object.
/// \param launcher  the dlflow executable; empty: the copy frozen in the run.
std::unique_ptr<Backend> local_backend(Machine machine, std::filesystem::path launcher = {});

}  // namespace dlflow
