#pragma once

#include <filesystem>
#include <string>

#include "engine/model/profile.h"

/// A container that shows whether a runtime works on a machine.
namespace dlflow {

/// Whether a container can be tried without an image: other runtimes need an image of their own
/// format, and the first job shows whether that works.
bool can_probe(const ContainerSettings& settings);

/// Writes container.json for `dlflow container-run` into `folder`: a container with an empty image
/// that runs `folder`/dlflow with `version`.
void prepare_container(const std::filesystem::path& folder, const ContainerSettings& settings);

/// Starts such a container here. Returns the reason if it does not run; empty: it runs, or it
/// cannot be tried.
std::string container_problem(const ContainerSettings& settings);

}  // namespace dlflow
