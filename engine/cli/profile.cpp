#include "engine/model/profile.h"

#include <cstdio>
#include <memory>

#include "base/file.h"
#include "base/json_fields.h"
#include "base/output_file.h"
#include "base/process.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/cli/commands.h"
#include "engine/cli/profile_check.h"
#include "engine/cli/workflow_argument.h"
#include "engine/model/profile_text.h"
#include "engine/plan/plan_json.h"
#include "engine/run/batch_systems.h"

namespace dlflow {
namespace {

struct ListedProfile {
  std::string name;
  std::string scheduler;
  std::string file;
  std::vector<std::string> extended_files;
  std::string mistake;  ///< why the profile cannot be used, or empty
};

std::string place_of(const std::string& file) { return file.empty() ? "built in" : file; }

ListedProfile listed(const std::string& name) {
  try {
    const Profile profile = load_profile(name);
    std::vector<std::string> extended;
    for (const std::string& file : profile.extended_files) extended.push_back(place_of(file));
    return {name, profile.scheduler, place_of(profile.file), extended, ""};
  } catch (const Error& error) {
    const std::vector<std::string> lines = split(error.what(), '\n');
    return {name, "", "", {}, lines.size() > 1 ? lines[1] : lines[0]};
  }
}

/// The profile's origin: "mine/alpha.yaml, extends /site/alpha.yaml".
std::string place_of(const ListedProfile& profile) {
  std::string place = profile.file;
  for (const std::string& file : profile.extended_files) place += ", extends " + file;
  return place;
}

void list_profiles(Session& session) {
  std::vector<ListedProfile> profiles;
  for (const std::string& name : known_profiles()) profiles.push_back(listed(name));
  if (session.json) {
    Json list = Json::array();
    for (const ListedProfile& profile : profiles) {
      list.push_back({{"name", profile.name},
                      {"scheduler", or_null(profile.scheduler)},
                      {"file", or_null(profile.file)},
                      {"extends", profile.extended_files},
                      {"error", or_null(profile.mistake)}});
    }
    print_json(list);
    return;
  }
  std::vector<std::vector<std::string>> rows = {{"PROFILE", "SCHEDULER", "FILE"}};
  for (const ListedProfile& profile : profiles) {
    if (session.quiet) std::printf("%s\n", profile.name.c_str());
    const bool usable = profile.mistake.empty();
    rows.push_back({profile.name, usable ? profile.scheduler : "-",
                    usable ? place_of(profile) : profile.mistake});
  }
  if (!session.quiet) std::fputs(columns(rows, std::vector(3, Align::Left)).c_str(), stdout);
}

void add_profile_list(CLI::App& app, Session& session) {
  CLI::App* command = add_command(app, "list", "List the profiles and the file of each.", R"(
  dlflow profile list
  dlflow profile list --quiet        (only the names))");
  add_json_option(*command, session);
  command->callback([&session] { list_profiles(session); });
}

std::shared_ptr<std::string> add_name(CLI::App& command) {
  auto name = std::make_shared<std::string>();
  add_value(command, "name", "NAME", *name, "a name from `dlflow profile list`, or a YAML file")
      ->required();
  return name;
}

void add_profile_show(CLI::App& app, Session& session) {
  CLI::App* command = add_command(
      app, "show", "Print every key of a profile with its value; `local` explains each.", R"(
  dlflow profile show local > cluster-profiles/mine.yaml
  dlflow profile show alpha --json)");
  const auto name = add_name(*command);
  add_json_option(*command, session);
  command->callback([&session, name] {
    const Profile profile = load_profile(*name);
    if (session.json) return print_json(to_json(profile));
    const bool is_local =
        profile.file.empty() || read_file_if_exists(profile.file) == local_profile();
    if (is_local) return void(std::fputs(std::string(local_profile()).c_str(), stdout));
    std::printf("# %s\n%s", place_of(profile.file).c_str(), profile_as_yaml(profile).c_str());
  });
}

void add_profile_detect(CLI::App& app, Session& session) {
  CLI::App* command = add_command(
      app, "detect", "Write a profile of the cluster that this login node belongs to.", R"(
  dlflow profile detect -o ~/.config/dlflow/profiles/alpha.yaml
  dlflow profile detect --partition gpu)");
  const auto file = std::make_shared<std::string>();
  const auto partition = std::make_shared<std::string>();
  add_output_option(*command, *file, "file to write; it must not exist");
  add_value(*command, "--partition", "NAME", *partition,
            "partition for jobs; default: the cluster's default partition");
  add_json_option(*command, session);
  command->callback([file, partition, &session] {
    if (!file->empty() && std::filesystem::exists(*file)) {
      throw Error(Errc::InvalidInput, *file + " already exists; remove it, or choose another");
    }
    const std::string text =
        detect_batch_system()->detect_profile(environment_variable("PATH"), *partition);
    const auto print = [](const Json& place, const std::string& profile) {
      print_json({{"file", place}, {"profile", profile}});
    };
    if (file->empty()) {
      if (session.json) return print(nullptr, text);
      std::fputs(text.c_str(), stdout);
      return;
    }
    const auto folder = std::filesystem::absolute(*file).parent_path();
    make_output_folder(folder);
    write_output(*file, text);
    if (session.json) return print(*file, text);
    std::printf("%s: read it, then try it: dlflow profile check %s\n", file->c_str(),
                shell_quote(*file).c_str());
  });
}

void add_profile_check(CLI::App& app, Session& session) {
  CLI::App* command = add_command(app, "check", "Submit a small job that tests a profile.", R"(
  dlflow profile check alpha
  dlflow profile check alpha --workflow train.yaml
  dlflow profile check alpha --timeout 2h        (a busy cluster))");
  const auto name = add_name(*command);
  const auto timeout = std::make_shared<std::string>("10m");
  const auto workflow = std::make_shared<WorkflowArgument>();
  add_value(*command, "--workflow", "WORKFLOW", workflow->file,
            "also load the `environment:` of its steps on the nodes where they run");
  add_value(*command, "--timeout", "TIME", *timeout, "maximum time that the job waits in the queue")
      ->capture_default_str();
  add_json_option(*command, session);
  command->callback([&session, name, timeout, workflow] {
    const Profile profile = load_profile(*name);
    std::optional<Plan> plan;
    if (!workflow->file.empty()) {
      NothingKnown nothing;
      plan = make_plan(workflow->read(), profile, {}, nothing, session.store());
    }
    check_profile(session, profile, parse_duration(*timeout), plan ? &*plan : nullptr);
  });
}

}  // namespace

void add_profile(CLI::App& app, Session& session) {
  CLI::App* command =
      add_command(app, "profile", "Describe clusters: list, show, detect, check.", R"(
  dlflow profile list
  dlflow profile check alpha)");
  command->require_subcommand(1);
  command->fallthrough();
  add_profile_list(*command, session);
  add_profile_show(*command, session);
  add_profile_detect(*command, session);
  add_profile_check(*command, session);
}

}  // namespace dlflow
