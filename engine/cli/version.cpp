#include "engine/cli/version.h"

#include <fmt/core.h>
#include <gnu/libc-version.h>
#include <openssl/opensslv.h>
#include <sqlite3.h>
#include <zlib.h>

#include <CLI/Version.hpp>

#include "base/json.h"
#include "base/version.h"

namespace dlflow {
namespace {

std::string dotted(int major, int minor, int patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

Json libraries() {
  return {{"cli11", CLI11_VERSION},
          {"fmt", dotted(FMT_VERSION / 10'000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
          {"glibc", ::gnu_get_libc_version()},
          {"nlohmann-json", dotted(NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                   NLOHMANN_JSON_VERSION_PATCH)},
          {"openssl", OPENSSL_VERSION_STR},
          {"sqlite", SQLITE_VERSION},
          {"zlib", ZLIB_VERSION}};
}

}  // namespace

std::string version_text(bool as_json) {
  if (!as_json) return "dlflow " DLFLOW_VERSION;
  const Json version = {
      {"dlflow", DLFLOW_VERSION},
      {"build", {{"compiler", __VERSION__}}},
      {"libraries", libraries()},
      {"interfaces", {{"gpu", DLFLOW_GPU_ABI}, {"mpi", DLFLOW_MPI_ABI}, {"runtime", DLFLOW_ABI}}}};
  return version.dump(2);
}

}  // namespace dlflow
