#include "engine/model/schema.h"

#include <cstdio>

#include "engine/cli/commands.h"
#include "runtime/nn/model_schema.h"

namespace dlflow {

void add_schema(CLI::App& app, Session& session) {
  CLI::App* command = add_command(
      app, "schema", "Print the JSON Schema of workflow, profile or model files, for editors.", R"(
  dlflow schema > workflow.schema.json
  dlflow schema model > model.schema.json
  (then, first line of a workflow beside it:)
  # yaml-language-server: $schema=workflow.schema.json)");
  const auto kind = std::make_shared<std::string>("workflow");
  add_value(*command, "kind", "KIND", *kind, "workflow, profile or model")
      ->capture_default_str()
      ->check(CLI::IsMember({"workflow", "profile", "model"}));
  add_json_option(*command, session);  // the output is always JSON
  command->callback([kind] {
    const std::string schema = *kind == "profile" ? profile_schema()
                               : *kind == "model" ? runtime::model_schema()
                                                  : workflow_schema();
    std::printf("%s\n", schema.c_str());
  });
}

}  // namespace dlflow
