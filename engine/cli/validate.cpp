#include <cstdio>

#include "engine/cli/commands.h"
#include "engine/cli/error_json.h"
#include "engine/cli/planning.h"
#include "engine/cli/warnings.h"
#include "engine/cli/workflow_argument.h"
#include "engine/model/profile.h"

namespace dlflow {

void add_validate(CLI::App& app, Session& session) {
  CLI::App* command = add_command(app, "validate", "Check a workflow and report every mistake.", R"(
  dlflow validate pipeline.yaml
  dlflow validate pipeline.yaml --set epochs=30
  dlflow validate pipeline.yaml --profile alpha --json)");
  const auto workflow = add_workflow_argument(*command);
  const auto profile = std::make_shared<std::string>(default_profile());
  add_value(*command, "--profile", "NAME", *profile, "profile that the workflow will run with")
      ->capture_default_str();
  add_json_option(*command, session);
  command->callback([=, &session] {
    const Workflow read = workflow->read();
    check_steps(read);
    check_data(read);
    const Profile loaded = load_profile(*profile);
    const std::map<std::string, int> automatic = automatic_ranks(read, loaded);
    if (!session.quiet) std::fputs(automatic_lines(automatic).c_str(), stderr);
    const std::string warnings = warning_lines(warnings_of(read, loaded));
    std::fputs(warnings.c_str(), stderr);
    Json meetings = Json::object();
    for (const Step& step : read.steps) {
      const std::string meeting = meeting_of(read, step, loaded);
      if (meeting.empty()) continue;
      meetings[step.name] = meeting;
      if (session.json || session.quiet) continue;
      std::printf("step '%s': its ranks will meet by %s\n", step.name.c_str(), meeting.c_str());
    }
    if (!session.json) return;
    print_json({{"workflow", read.name},
                {"file", read.file},
                {"steps", read.steps.size()},
                {"automatic_ranks", automatic},
                {"ranks_meet_by", std::move(meetings)},
                {"diagnostics", diagnostics_json(warnings)}});
  });
}

}  // namespace dlflow
