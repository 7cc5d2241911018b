#include <cstdio>

#include "engine/cli/commands.h"
#include "engine/cli/workflow_argument.h"
#include "engine/report/graph_text.h"
#include "engine/report/json.h"

namespace dlflow {

void add_graph(CLI::App& app, Session& session) {
  CLI::App* command =
      add_command(app, "graph", "Show the steps of a workflow and their dependencies.", R"(
  dlflow graph pipeline.yaml
  dlflow graph pipeline.yaml --format svg > pipeline.svg)");
  const auto workflow = add_workflow_argument(*command);
  const auto format = std::make_shared<std::string>("text");
  command->add_option("--format", *format, "text, dot, mermaid or svg (svg needs Graphviz)")
      ->capture_default_str()
      ->check(CLI::IsMember({"text", "dot", "mermaid", "svg"}));
  add_json_option(*command, session);
  command->callback([workflow, format, &session] {
    const Workflow parsed = workflow->read();
    if (session.json) {
      NothingKnown nothing;
      FreshFileHashes hashes;
      return print_json(to_json(make_plan(parsed, Profile{}, {}, nothing, hashes)));
    }
    const std::string text = *format == "dot"       ? graph_as_dot(parsed)
                             : *format == "mermaid" ? graph_as_mermaid(parsed)
                             : *format == "svg"     ? graph_as_svg(parsed)
                                                    : graph_as_text(parsed);
    std::fputs(text.c_str(), stdout);
  });
}

}  // namespace dlflow
