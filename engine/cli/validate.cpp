#include "engine/cli/commands.h"
#include "engine/cli/workflow_argument.h"

namespace dlflow {

void add_validate(CLI::App& app, Session&) {
  CLI::App* command = add_command(app, "validate", "Say what is wrong with a workflow, or nothing.",
                                  "  dlflow validate pipeline.yaml\n"
                                  "  dlflow validate pipeline.yaml --set epochs=30");
  const auto workflow = add_workflow_argument(*command);
  command->callback([workflow] { check_steps(workflow->read()); });
}

}  // namespace dlflow
