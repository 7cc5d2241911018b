#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "engine/cli/commands.h"
#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// The run directories in `folder`: itself, or those right below it.
std::vector<fs::path> run_directories(const fs::path& folder) {
  if (fs::exists(folder / "plan.json")) return {folder};
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (fs::exists(entry.path() / "plan.json")) found.push_back(entry.path());
  }
  if (error) throw Error(Errc::NotFound, folder.string() + ": " + error.message());
  return found;
}

}  // namespace

void add_doctor(CLI::App& app, Session& session) {
  CLI::App* command = add_command(
      app, "doctor", "Make the index of runs again from the run directories, which are the truth.",
      "  dlflow doctor --rebuild                    (./dlflow-runs)\n"
      "  dlflow doctor --rebuild /scratch/me/runs");
  const auto rebuild = std::make_shared<bool>(false);
  const auto folders = std::make_shared<std::vector<std::string>>();
  command->add_flag("--rebuild", *rebuild, "read every run directory again")->required();
  command->add_option("folders", *folders, "run directories, or folders that hold some")
      ->type_name("FOLDER");
  command->callback([=, &session] {
    if (folders->empty()) folders->push_back("dlflow-runs");
    for (const std::string& folder : *folders) {
      for (const fs::path& directory : run_directories(fs::absolute(folder))) {
        const RunLock lock(directory);  // an engine at work records what we would read half of
        std::printf("%s\n", session.store().rebuild_run(directory).c_str());
      }
    }
  });
}

}  // namespace dlflow
