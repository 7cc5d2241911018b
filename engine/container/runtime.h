#pragma once

#include <sys/types.h>

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The container runtimes, each a pure function from the description of a container to the command
/// that starts it. docs/user/containers.md has their tests and limits.
namespace dlflow {

/// A folder or file of the host that a container sees at `target`.
struct Bind {
  std::filesystem::path source;
  std::filesystem::path target;
  bool read_only = false;
  bool operator==(const Bind&) const = default;
};

/// Parses "/data" or "/site/data:/data", optionally followed by ":ro".
Bind parse_bind(const std::string& text);

/// The form of an image that a runtime starts from.
enum class ImageForm {
  RootFolder,        ///< the unpacked root file system itself
  UdockerContainer,  ///< a container in a separate udocker repository
  Squashfs,          ///< a single file
  DaemonImage,       ///< known to the docker daemon of the node by its digest
};

/// One container to run. The runtime does not get the environment for the program inside:
/// container-exec sets it, in the same way under all runtimes.
struct Container {
  std::vector<std::string> command;  ///< the runtime's program, with options of the site
  std::string mode;                  ///< udocker: P1, P2, R1, R2, R3
  std::filesystem::path image;       ///< in the form that the runtime needs
  std::vector<Bind> binds;
  std::filesystem::path scratch;    ///< a folder on the node for the files of the runtime
  std::filesystem::path directory;  ///< working directory inside
  /// Makes the image writable, for a user who looks like root inside; only for RootFolder.
  bool building = false;
  bool gpus = false;  ///< whether the caller's GPUs are visible inside
  uid_t uid = 0;      ///< the caller's ids, under which it runs
  gid_t gid = 0;
  std::string user;                    ///< the caller's name
  std::vector<std::string> arguments;  ///< the site's further arguments for starting a container
  std::vector<std::string> program;    ///< the program inside, and its arguments
};

struct Invocation {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  ///< "NAME=value" for the runtime itself
};

struct ContainerRuntime {
  std::string_view name;     ///< as in profiles
  std::string_view program;  ///< searched in PATH
  std::string_view package;  ///< provides the program
  ImageForm (*form)(const std::string& mode, bool gpus);
  Invocation (*invoke)(const Container& container);
  /// Whether the runtime starts all ranks itself; its arguments are then for srun.
  bool starts_ranks = false;
  /// The folder of the driver's GPU libraries if programs need its path; empty: they find it.
  std::string_view gpu_libraries = {};
  /// The program in PATH that indicates the runtime on a cluster; empty: `program`.
  std::string_view shown_by = {};

  std::string_view sign() const { return shown_by.empty() ? program : shown_by; }
};

/// All runtimes, in the order of preference of `dlflow profile detect`.
std::span<const ContainerRuntime> runtimes();

/// Returns null if there is no such runtime.
const ContainerRuntime* find_runtime(std::string_view name);

/// Whether udocker records the running program inside the container, as in R modes: one program
/// runs at a time, as root inside and as the caller outside.
bool udocker_runs_alone(const std::string& mode);

Invocation invoke_apptainer(const Container& container);
Invocation invoke_bubblewrap(const Container& container);
Invocation invoke_charliecloud(const Container& container);
Invocation invoke_docker(const Container& container);
Invocation invoke_podman(const Container& container);
Invocation invoke_pyxis(const Container& container);
Invocation invoke_udocker(const Container& container);

/// The text of a bind for these runtimes: "SOURCE:TARGET", with ":ro" if it is read-only.
std::string bind_text(const Bind& bind);
void append(std::vector<std::string>& argv, const std::vector<std::string>& words);

}  // namespace dlflow
