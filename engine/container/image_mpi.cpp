#include "engine/container/image_mpi.h"

#include <charconv>

#include "base/text.h"
#include "engine/container/tree.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// The number that `text` begins with, or -1.
int number_at(std::string_view text) {
  int number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// The MPI of a library's file: libmpi.so.40.30.4 is Open MPI 4.1; libmpi.so.12 is the common
/// interface of MPICH's relatives. Open MPI's second number grows by 10 with each series: 3.0, 3.1,
/// 4.0, 4.1, 5.
MpiName mpi_of_library(std::string_view file) {
  if (file.starts_with("libmpich.so.")) return "MPICH";
  constexpr std::string_view kMpi = "libmpi.so.";
  if (!file.starts_with(kMpi)) return "";
  file.remove_prefix(kMpi.size());
  if (number_at(file) == 12) return "MPICH";
  if (number_at(file) != 40 || file.find('.') == file.npos) return "";
  const int series = number_at(file.substr(file.find('.') + 1)) / 10;
  if (series < 2) return "Open MPI 3";
  return series < 4 ? "Open MPI 4" : "Open MPI 5";
}

void look_in(const fs::path& folder, std::set<MpiName>& found) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const MpiName mpi = mpi_of_library(entry.path().filename().native());
    if (!mpi.empty()) found.insert(mpi);
  }
}

}  // namespace

MpiName mpi_of_launcher(std::string_view version) {
  constexpr std::string_view kVersionMark = "(Open MPI) ";
  if (const size_t at = version.find(kVersionMark); at != version.npos) {
    const int major = number_at(version.substr(at + kVersionMark.size()));
    return major < 0 ? "" : "Open MPI " + std::to_string(major);
  }
  const bool hydra =
      version.find("HYDRA") != version.npos || version.find("Intel(R) MPI") != version.npos;
  return hydra ? "MPICH" : "";
}

std::set<MpiName> mpis_of_image(const fs::path& rootfs,
                                const std::map<std::string, std::string>& environment) {
  std::set<fs::path> folders;
  for (const char* top : {"lib", "lib64", "usr/lib", "usr/lib64", "usr/local", "opt"}) {
    const fs::path inside = resolve_in(rootfs, fs::path(top) / ".");  // links may lead out of it
    folders.insert(inside);
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(inside, none)) {
      const fs::path name = fs::path(top) / entry.path().filename();
      for (const char* below : {".", "lib/.", "lib64/.", "openmpi/lib/.", "mpich/lib/."}) {
        folders.insert(resolve_in(rootfs, name / below));
      }
    }
  }
  const auto path = environment.find("PATH");
  if (path != environment.end()) {
    for (const std::string& programs : split(path->second, ':')) {
      folders.insert(resolve_in(rootfs, fs::path(programs).parent_path() / "lib/."));
    }
  }
  std::set<MpiName> found;
  for (const fs::path& folder : folders) look_in(folder, found);
  return found;
}

std::string mpi_mismatch(const MpiName& launcher, const std::set<MpiName>& image,
                         const std::string& name) {
  if (launcher.empty() || image.empty() || image.contains(launcher)) return "";
  std::string names;
  for (const MpiName& mpi : image) names += (names.empty() ? "" : " and ") + mpi;
  return "image '" + name + "' has " + names + ", but the launcher here is of " + launcher +
         ": a program that uses MPI would be rank 0 of 1 in each rank, or would not start; use an "
         "image with " +
         launcher + ", or install that with the image's `build:`";
}

}  // namespace dlflow
