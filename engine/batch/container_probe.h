#pragma once

#include <filesystem>
#include <string>

#include "engine/model/profile.h"

/// A container that is started to see whether a runtime works on a machine.
namespace dlflow {

/// Whether a container can be tried without an image: other runtimes need one of their own making,
/// and the first job shows whether that works.
bool can_probe(const ContainerSettings& settings);

/// Writes container.json into `folder`, for `dlflow container-run`: a container whose image holds
/// nothing, and which runs `folder`/dlflow with `version`.
void prepare_container(const std::filesystem::path& folder, const ContainerSettings& settings);

/// Starts such a container here. Returns the reason if it does not run; empty: it runs, or it
/// cannot be tried.
std::string container_problem(const ContainerSettings& settings);

}  // namespace dlflow
