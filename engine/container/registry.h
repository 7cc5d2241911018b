#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/digest.h"

/// Images from registries, through the program curl, with the login of registry_login.h. Source:
/// OCI distribution specification 1.1; the Docker registry's token authentication.
namespace dlflow {

/// Downloads the image `name` ("python:3.12", "ghcr.io/owner/name:tag") with this digest into an
/// OCI layout. Throws Error: NotFound if the registry has no such image, Unavailable if it cannot
/// be reached, InvalidInput before the first transfer if all parts together exceed `budget_bytes`
/// (0: no limit) or the free disk space.
void fetch_image(const std::string& name, const Digest& digest, const std::filesystem::path& layout,
                 uint64_t budget_bytes);

/// The current digest of `name` for this kind of machine. Throws like fetch_image.
Digest registry_digest(const std::string& name);

/// The parts of a name: "python:3.12" is "https://registry-1.docker.io", "library/python", "3.12".
struct RegistryName {
  std::string server;
  std::string repository;
  std::string tag;
  bool operator==(const RegistryName&) const = default;
};
RegistryName registry_name(const std::string& name);

}  // namespace dlflow
