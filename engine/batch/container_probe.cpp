#include "engine/batch/container_probe.h"

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "engine/container/container_job.h"
#include "engine/container/runtime.h"
#include "engine/container/tree.h"

namespace dlflow {

namespace fs = std::filesystem;

bool can_probe(const ContainerSettings& settings) {
  const ContainerRuntime* const runtime = find_runtime(settings.runtime);
  return runtime != nullptr && runtime->form(settings.mode, false) == ImageForm::RootFolder;
}

void prepare_container(const fs::path& folder, const ContainerSettings& settings) {
  const fs::path rootfs = folder / "rootfs";
  make_directories(folder / "work");
  make_directories(rootfs);
  add_mount_points(rootfs);
  ContainerJob job;
  job.image = "probe";
  job.from = "dir:" + rootfs.string();
  job.cache = folder / "cache";
  job.runtime = settings.runtime;
  job.command = settings.command;
  job.mode = settings.mode;
  job.arguments = settings.arguments;
  job.binds = {{folder, folder}};
  for (const std::string& bind : settings.binds) job.binds.push_back(parse_bind(bind));
  job.directory = folder / "work";
  job.commands = {{folder / "dlflow", "version"}};
  write_file_atomic(folder / "container.json", to_json(job).dump() + "\n");
}

std::string container_problem(const ContainerSettings& settings) {
  if (!can_probe(settings)) return "";
  const TemporaryFolder folder(fs::temp_directory_path() / "dlflow-container");
  copy_content("/proc/self/exe", folder.path() / "dlflow");
  prepare_container(folder.path(), settings);
  Command command{
      .argv = {folder.path() / "dlflow", "container-run", folder.path() / "container.json"},
      .environment = current_environment()};
  const std::chrono::seconds limit(30);
  const Output output = run(std::move(command), {.time_limit = limit, .collect_errors = true});
  if (("\n" + output.text).find("\ndlflow ") != std::string::npos) return "";
  if (output.timed_out) return "it did not end within " + std::to_string(limit.count()) + " s";
  for (const std::string& line : split(output.errors + output.text, '\n')) {
    if (!line.empty()) return line.starts_with("error: ") ? line.substr(7) : line;
  }
  return "exit " + std::to_string(output.status.code);
}

}  // namespace dlflow
