#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "engine/cli/commands.h"
#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// The run directories in `folder`: itself, or those right below it. What begins with a dot is
/// being made or removed.
std::vector<fs::path> run_directories(const fs::path& folder) {
  if (fs::exists(folder / "plan.json")) return {folder};
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const bool hidden = entry.path().filename().string().starts_with('.');
    if (!hidden && fs::exists(entry.path() / "plan.json")) found.push_back(entry.path());
  }
  if (error) {
    throw Error(Errc::NotFound, folder.string() + ": " + error.message() +
                                    "; name the folder that holds the runs: dlflow doctor "
                                    "--rebuild FOLDER");
  }
  return found;
}

/// A damaged one does not keep the others from being read.
void read_again(Session& session, const fs::path& directory, Json& found) {
  try {
    const RunLock lock(directory);  // an engine at work records what we would read half of
    const std::string run = session.store().rebuild_run(directory);
    if (!session.json) std::printf("%s\n", run.c_str());
    found.push_back({{"run", run}, {"directory", directory.string()}, {"error", nullptr}});
  } catch (const Error& error) {
    found.push_back({{"run", nullptr}, {"directory", directory.string()}, {"error", error.what()}});
    std::fprintf(stderr, "error: %s\n", escaped_lines(error.what()).c_str());
    session.status = exit_status(error);
  }
}

}  // namespace

void add_doctor(CLI::App& app, Session& session) {
  CLI::App* command =
      add_command(app, "doctor", "Rebuild the index of runs from their directories.", R"(
  dlflow doctor --rebuild                    (./dlflow-runs)
  dlflow doctor --rebuild /scratch/me/runs)");
  const auto rebuild = std::make_shared<bool>(false);
  const auto folders = std::make_shared<std::vector<std::string>>();
  command->add_flag("--rebuild", *rebuild, "read every run directory again")->required();
  add_value(*command, "folders", "FOLDER", *folders, "run directories, or folders that hold some");
  add_json_option(*command, session);
  command->callback([=, &session] {
    Json found = Json::array();
    if (folders->empty()) folders->push_back("dlflow-runs");
    for (const std::string& folder : *folders) {
      for (const fs::path& directory : run_directories(fs::absolute(folder))) {
        read_again(session, directory, found);
      }
      session.store().take_effects(folder);
    }
    if (session.json) print_json({{"runs", std::move(found)}});
  });
}

}  // namespace dlflow
