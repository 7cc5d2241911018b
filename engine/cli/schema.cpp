#include "engine/model/schema.h"

#include <cstdio>

#include "engine/cli/commands.h"
#include "runtime/nn/model_schema.h"

namespace dlflow {

void add_schema(CLI::App& app, Session& session) {
  CLI::App* command = add_command(
      app, "schema", "Print the JSON Schema of workflow, profile or model files, for editors.",
      "  dlflow schema > ~/.config/dlflow/workflow.schema.json\n"
      "  dlflow schema model > ~/.config/dlflow/model.schema.json\n"
      "  (then, first line of a workflow:)\n"
      "  # yaml-language-server: $schema=workflow.schema.json");
  const auto file = std::make_shared<std::string>("workflow");
  command->add_option("file", *file, "workflow, profile or model")
      ->type_name("KIND")
      ->capture_default_str()
      ->check(CLI::IsMember({"workflow", "profile", "model"}));
  add_json_option(*command, session);  // what it prints is JSON in any case
  command->callback([file] {
    const std::string schema = *file == "profile" ? profile_schema()
                               : *file == "model" ? runtime::model_schema()
                                                  : workflow_schema();
    std::printf("%s\n", schema.c_str());
  });
}

}  // namespace dlflow
