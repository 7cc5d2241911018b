#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"
#include "base/version.h"
#include "engine/batch/container_probe.h"
#include "engine/cli/commands.h"
#include "engine/cli/findings_printer.h"
#include "engine/cli/profile_check.h"
#include "engine/container/runtime.h"
#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using Kind = Finding::Kind;

/// The run directories in `folder`: itself, or those directly below it. Names that begin with a dot
/// are folders being created or removed.
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

/// Reads one run into the store. Errors do not stop the others.
void read_again(Session& session, const fs::path& directory, Json& found) {
  try {
    const RunLock lock(directory);  // an engine may be writing its records
    const std::string run = session.store().rebuild_run(directory);
    if (!session.json) std::printf("%s\n", run.c_str());
    found.push_back({{"run", run}, {"directory", directory.string()}, {"error", nullptr}});
  } catch (const Error& error) {
    found.push_back({{"run", nullptr}, {"directory", directory.string()}, {"error", error.what()}});
    std::fprintf(stderr, "error: %s\n", escaped_lines(error.what()).c_str());
    session.status = exit_status(error);
  }
}

/// Checks the container tools in PATH: those that start a container, those that do not, with the
/// reason, and those that only a job can try. One that works is enough.
void check_container_tools(Session& session, const FindingsPrinter& printer) {
  const int status = session.status;
  bool has_any = false, works = false;
  std::vector<std::string> names;
  for (const ContainerRuntime& runtime : runtimes()) {
    names.emplace_back(runtime.name);
    if (!find_program(std::string(runtime.sign()), environment_variable("PATH"))) continue;
    ContainerSettings settings;
    settings.runtime = runtime.name;
    const std::string problem = container_problem(settings);
    has_any = true;
    if (!can_probe(settings)) {
      printer.add(Kind::Works, names.back() + " is here; only a job can try it");
    } else if (!problem.empty()) {
      printer.add(Kind::Fails, "no container runs with " + names.back() + ": " + problem);
    } else {
      printer.add(Kind::Works, "containers run with " + names.back(),
                  works ? ""
                        : "Steps with `image:` need a profile with `container: {runtime: " +
                              names.back() + "}`.");
      works = true;
    }
  }
  if (works) session.status = status;
  if (has_any) return;
  printer.add(Kind::Works, "no usable container tool was found",
              "Steps with `image:` need one of " + join(names, ", ") + ".");
}

/// Scripts may work without the package, but not with another version.
void check_python_package(const FindingsPrinter& printer) {
  Command command;
  command.argv = {"python3", "-c", "import dlflow; print(dlflow.__version__)"};
  command.environment = current_environment();
  if (!find_program("python3", environment_variable("PATH"))) {
    return printer.add(Kind::Works, "there is no python3 in PATH");
  }
  const Output output =
      run(std::move(command), {.time_limit = std::chrono::seconds(30), .collect_errors = true});
  const std::string version(trim(output.text));
  const std::string wheel = "`pip install dlflow-" DLFLOW_VERSION "-*.whl`";
  if (output.status.code != 0) {
    printer.add(Kind::Works, "python3 has no package dlflow",
                "Scripts that import it need " + wheel + ".");
  } else {
    printer.add(version == DLFLOW_VERSION ? Kind::Works : Kind::Fails,
                "python3 has the package dlflow " + version,
                version == DLFLOW_VERSION ? "" : "This is dlflow " DLFLOW_VERSION ": " + wheel);
  }
}

/// The probe of `profile check` on this machine, and other requirements of steps.
void check_machine(Session& session) {
  const Profile profile = load_profile("local");
  Json findings = Json::array();
  const bool has_runs = fs::exists(profile.runs);
  check_local(session, profile, 2, "", {}, findings);
  std::error_code ignored;
  if (!has_runs) fs::remove(profile.runs, ignored);  // made by the probe; empty
  const FindingsPrinter printer(session, findings);
  check_container_tools(session, printer);
  check_python_package(printer);
  const char* verdict = session.status == kDone ? "Steps can run here." : "Some checks failed.";
  if (!session.json && !session.quiet) std::puts(verdict);
  if (session.json) print_json({{"profile", profile.name}, {"findings", std::move(findings)}});
}

}  // namespace

void add_doctor(CLI::App& app, Session& session) {
  CLI::App* command = add_command(app, "doctor", "Check this machine, or rebuild the index.", R"(
  dlflow doctor                              (programs, ranks, containers)
  dlflow doctor --rebuild                    (of the runs in ./dlflow-runs)
  dlflow doctor --rebuild /scratch/me/runs)");
  const auto rebuild = std::make_shared<bool>(false);
  const auto folders = std::make_shared<std::vector<std::string>>();
  CLI::Option* const flag =
      command->add_flag("--rebuild", *rebuild, "read every run directory again");
  add_value(*command, "folders", "FOLDER", *folders,
            "with --rebuild: run directories, or folders that hold some")
      ->needs(flag);
  add_json_option(*command, session);
  command->callback([=, &session] {
    if (!*rebuild) return check_machine(session);
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
