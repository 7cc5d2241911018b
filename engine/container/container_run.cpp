#include "engine/container/container_run.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/parse_json.h"
#include "base/process.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "engine/container/binds.h"
#include "engine/container/container_environment.h"
#include "engine/container/convert_image.h"
#include "engine/container/image_build.h"
#include "engine/container/image_mpi.h"
#include "engine/container/image_store.h"
#include "engine/container/outside.h"
#include "engine/container/tool.h"
#include "engine/container/tree.h"
#include "engine/container/udocker_engine.h"
#include "engine/ranks/rank_exec.h"
#include "engine/ranks/rank_variables.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr int kNotStarted = 125;  // as for podman and docker

const ContainerRuntime& runtime_of(const ContainerJob& job) {
  const ContainerRuntime* const runtime = find_runtime(job.runtime);
  if (runtime == nullptr) {
    throw Error(Errc::InvalidInput, "there is no container runtime '" + job.runtime + "'");
  }
  return *runtime;
}

/// The command of the runtime on this node.
std::vector<std::string> command_of(const ContainerRuntime& runtime, const ContainerJob& job) {
  std::vector<std::string> command = job.command;
  if (command.empty()) command = runtime.starts_ranks ? job.launcher : std::vector<std::string>();
  if (command.empty()) command = {std::string(runtime.program)};
  const std::string& program = command.front();
  const bool there = program.find('/') == program.npos
                         ? find_program(program, environment_variable("PATH")).has_value()
                         : ::access(program.c_str(), X_OK) == 0;
  if (!there) {
    throw Error(Errc::NotFound,
                "there is no program '" + program + "' on " + host_name() +
                    ", but the profile's container.runtime, " + job.runtime +
                    ", needs it; install it (" + std::string(runtime.package) +
                    "), load it in the profile's `setup`, or choose another runtime");
  }
  return command;
}

/// The worst exit status of this container's ranks, or 0; nothing if a rank left no record.
std::optional<int> recorded_status(const Rendezvous& meeting, int ranks) {
  int worst = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto text = read_file_if_exists(meeting.status(std::to_string(rank)));
    if (!text) return std::nullopt;
    worst = std::max(worst, std::atoi(text->c_str()));
  }
  return worst;
}

Container container_for(const ContainerJob& job, const std::string& user,
                        std::vector<std::string> command, std::vector<Bind> binds, fs::path image,
                        const fs::path& folder, const fs::path& scratch) {
  return {.command = std::move(command),
          .mode = job.mode,
          .image = std::move(image),
          .binds = std::move(binds),
          .scratch = scratch,
          .directory = job.directory,
          .gpus = job.gpus,
          .uid = ::geteuid(),
          .gid = ::getegid(),
          .user = user,
          .arguments = job.arguments,
          // Not /proc/self/exe: the program has the same path inside as outside.
          .program = {this_program(), "container-exec", folder}};
}

void write_request(const ContainerJob& job, const std::string& user,
                   const ContainerRuntime& runtime, const StoredImage& image,
                   const Rendezvous& meeting, const std::vector<std::string>& callers) {
  ContainerRequest request;
  request.image = job.image;
  request.commands = job.commands;
  request.directory = job.directory;
  request.adds_ranks = runtime.starts_ranks;
  request.secrets = job.secrets;
  request.secrets_file = job.secrets_file;
  request.environment = container_environment(job, image.environment, callers, user);
  if (job.rank_plan) request.asks_by = job.rank_plan->asks_by;
  if (job.rank_plan) request.asked_by = job.rank_plan->asked_by;
  if (runtime.starts_ranks) {
    request.rank_plan = job.rank_plan;
  } else if (job.rank_plan) {
    add_rank(request.environment, *job.rank_plan);
  }
  if (job.gpus && !runtime.gpu_libraries.empty()) {
    std::string& path = request.environment["LD_LIBRARY_PATH"];
    path += (path.empty() ? "" : ":") + std::string(runtime.gpu_libraries);
  }
  write_file_atomic(meeting.request(), to_json(request).dump() + "\n");
}

/// Waits for at most a second until the supervisor has emptied the pipe on standard error, and a
/// little longer until that is in the log.
void wait_for_log() {
  constexpr auto kPause = std::chrono::milliseconds(20);
  for (int left = 50, pauses = 0; left > 0 && pauses < 3; --left) {
    int unread = 0;
    pauses = ::ioctl(STDERR_FILENO, FIONREAD, &unread) == 0 && unread > 0 ? 0 : pauses + 1;
    std::this_thread::sleep_for(kPause);
  }
}

/// The last line of `log`, which the runtime printed.
std::string last_words(const fs::path& log) {
  constexpr uint64_t kTooMuch = uint64_t{1} << 20;
  wait_for_log();
  std::error_code ignored;
  if (!fs::is_regular_file(log, ignored) || fs::file_size(log, ignored) > kTooMuch) {
    return "the cause is on standard error";
  }
  const std::string text = read_file(log);
  const std::string_view said = trim(text);
  return said.empty() ? "it said nothing" : std::string(said.substr(said.rfind('\n') + 1));
}

/// Uses `dir:` images in place; creates missing mount points if permitted.
StoredImage provided(const ContainerJob& job, ImageStore& store) {
  const ImageSource source = image_source(job.from, "/");
  if (source.kind != ImageSource::Kind::Folder) return store.provide(source, job.digest);
  if (!fs::is_directory(source.path)) {
    throw Error(Errc::NotFound,
                "there is no folder " + source.path.string() + " on " + host_name());
  }
  StoredImage image;
  image.from = job.from;
  image.rootfs = source.path;
  try {
    add_mount_points(image.rootfs);
  } catch (const Error&) {
    return image;  // read-only for this user: a runtime that needs a missing one reports it
  }
  return image;
}

Command runtime_command(const Invocation& call, bool starts_ranks) {
  // Signals to this process group must reach the program inside only through the pipe. SLURM also
  // signals processes in other groups, which would kill udocker and make proot print its state.
  Command command{.argv = call.argv,
                  .environment = changed_environment(call.environment),
                  .own_group = true,
                  .dies_with_parent = true};
  if (!starts_ranks) command.blocked_signals = {kPassedIn.begin(), kPassedIn.end()};
  return command;
}

/// Waits for its turn if the container can run only one program at a time.
std::optional<FileLock> wait_for_turn(const ContainerJob& job, const StoredImage& image) {
  if (job.runtime != "udocker" || !udocker_runs_alone(job.mode)) return std::nullopt;
  const auto ranks = job.environment.find("DLFLOW_RANKS");
  if (ranks != job.environment.end() && ranks->second != "1") {
    throw Error(Errc::InvalidInput, "udocker's mode " + job.mode +
                                        " runs one rank at a time; set container.mode to P1");
  }
  return FileLock::acquire(image.folder / ("udocker-" + job.mode + ".lock"), "runs in it");
}

/// Starts a job's containers on this node.
struct Starter {
  const ContainerRuntime& runtime;
  std::vector<std::string> command;
  ImageStore& store;
  const Signals& signals;
};

/// Runs the program of `job` in `image`, which is writable during a build.
int run_in(const Starter& starter, const ContainerJob& job, const StoredImage& image,
           bool building) {
  const ContainerRuntime& runtime = starter.runtime;
  const std::vector<Bind> binds = container_binds(job);
  const TemporaryFolder folder(job.directory.parent_path() / "container");
  const TemporaryFolder scratch(fs::temp_directory_path() / "dlflow-container");
  const Rendezvous meeting{folder.path()};
  make_mount_points(image, binds, starter.store);
  const std::string user = user_name();
  write_request(job, user, runtime, image, meeting,
                building ? std::vector<std::string>() : current_environment());
  std::optional<ControlPipe> pipe;
  if (!runtime.starts_ranks) pipe.emplace(meeting);
  const auto turn = wait_for_turn(job, image);
  fs::path form = image.rootfs;
  if (!building) form = image_for(runtime, job, starter.command, starter.store, image);
  Container container =
      container_for(job, user, starter.command, binds, form, folder.path(), scratch.path());
  container.building = building;
  Invocation call = runtime.invoke(container);
  if (job.runtime == "udocker") add_udocker_engine(call, job.mode, job.cache, scratch.path());
  const ExitStatus ended =
      stay_beside(start(runtime_command(call, runtime.starts_ranks)), starter.signals, pipe);
  if (const auto status = recorded_status(meeting, job.ranks)) {
    if (*status > 128 && job.ranks == 1 && job.rank_plan)
      record_lost_rank(*job.rank_plan, *status - 128);
    return *status;
  }
  throw Error(Errc::Unavailable, job.runtime + " did not run the program in image '" + job.image +
                                     "' (" + std::to_string(ended.code) +
                                     "): " + last_words(job.log) +
                                     "; its command was: " + shell_line(call.argv));
}

/// `base` with the changes of `build:`.
StoredImage built(const Starter& starter, const ContainerJob& job, const StoredImage& base) {
  if (starter.runtime.form(job.mode, false) != ImageForm::RootFolder) {
    throw Error(Errc::InvalidInput,
                "image '" + job.image + "' has a `build:`, but " + job.runtime +
                    (job.mode.empty() ? "" : " in mode " + job.mode) +
                    " cannot write to an image; set container.runtime of the profile to one of "
                    "udocker (P1), charliecloud, podman, bubblewrap and apptainer");
  }
  const TemporaryFolder room(fs::temp_directory_path() / "dlflow-build");
  return built_image(job, starter.store, base, room.path() / "work",
                     [&](const ContainerJob& build, const StoredImage& copy) {
                       return run_in(starter, build, copy, true);
                     });
}

/// Called by the first rank, before any rank starts its program.
void warn_of_other_mpi(const ContainerJob& job, const StoredImage& image) {
  if (job.mpirun.empty() || !job.rank_plan) return;
  const auto variables = rank_variables(*job.rank_plan);
  const auto rank = variables.find("DLFLOW_RANK");
  if (rank == variables.end() || rank->second != "0") return;
  try {
    const MpiName launcher = mpi_of_launcher(output_of_tool({job.mpirun, "--version"}));
    const std::string problem =
        mpi_mismatch(launcher, mpis_of_image(image.rootfs, image.environment), job.image);
    if (!problem.empty()) std::fprintf(stderr, "warning: %s\n", problem.c_str());
  } catch (const Error&) {  // the image has circular links: the program may still run
  }
}

int run_container(const ContainerJob& job) {
  const Signals signals;
  const ContainerRuntime& runtime = runtime_of(job);
  make_directories(job.cache);
  ImageStore store(job.cache, job.cache_budget_bytes);
  const Starter starter{runtime, command_of(runtime, job), store, signals};
  StoredImage image = provided(job, store);
  std::optional<FileLock> use;
  if (!image.folder.empty()) use = store.use(image);
  if (!job.build.is_null()) {
    image = built(starter, job, image);
    use = store.use(image);
  }
  warn_of_other_mpi(job, image);
  return run_in(starter, job, image, false);
}

}  // namespace

int container_run(const fs::path& file) {
  try {
    const Json json = parse_json(read_file(file));
    return run_container(container_job_from_json(json));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return kNotStarted;
  }
}

}  // namespace dlflow
