#include "engine/model/schema.h"

#include <cstdio>

#include "engine/cli/commands.h"

namespace dlflow {

void add_schema(CLI::App& app, Session&) {
  CLI::App* command =
      add_command(app, "schema", "Print the JSON Schema of workflow files, for editors.",
                  "  dlflow schema > ~/.config/dlflow/workflow.schema.json\n"
                  "  (then, first line of a workflow:)\n"
                  "  # yaml-language-server: $schema=workflow.schema.json");
  command->callback([] { std::printf("%s\n", json_schema().c_str()); });
}

}  // namespace dlflow
