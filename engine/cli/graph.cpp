#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "engine/cli/commands.h"
#include "engine/cli/images.h"
#include "engine/cli/release_image.h"
#include "engine/cli/session.h"
#include "engine/cli/workflow_argument.h"
#include "engine/plan/explain.h"
#include "engine/plan/run_directory.h"
#include "engine/report/graph_text.h"
#include "engine/report/json.h"

namespace dlflow {
namespace {

/// The run that `word` means; nothing if it is a file, or means none.
std::optional<RunStatus> run_called(Session& session, const std::string& word) {
  if (std::filesystem::is_regular_file(word)) return std::nullopt;
  try {
    return refresh_run(session, session.store().resolve(word));
  } catch (const Error& error) {
    if (error.code() != Errc::NotFound) throw;
    return std::nullopt;
  }
}

}  // namespace

void add_graph(CLI::App& app, Session& session) {
  CLI::App* command =
      add_command(app, "graph", "Show the steps of a workflow, or of a run with their states.", R"(
  dlflow graph pipeline.yaml
  dlflow graph fashion-mnist-7f3a91c0
  dlflow graph pipeline.yaml --format svg > pipeline.svg)");
  const auto workflow = add_workflow_argument(*command);
  const auto format = std::make_shared<std::string>("text");
  command->add_option("--format", *format, "text, dot, mermaid or svg (svg needs Graphviz)")
      ->capture_default_str()
      ->check(CLI::IsMember({"text", "dot", "mermaid", "svg"}));
  add_json_option(*command, session);
  command->callback([workflow, format, &session] {
    const auto run = run_called(session, workflow->file);
    Workflow parsed = run ? load_run(run->directory).workflow : workflow->read();
    const RunJobs jobs = run ? run->jobs : RunJobs();
    if (session.json) {
      Store& store = session.store();
      Profile profile = load_profile(default_profile());
      if (!run) use_release_image(parsed, profile);
      if (!run) pin_images(parsed, profile, store);
      const Plan plan =
          run ? load_run(run->directory) : make_plan(parsed, profile, {}, store, store);
      return print_json(to_json(plan, explain(plan, store)));
    }
    const std::string text = *format == "dot"       ? graph_as_dot(parsed, jobs)
                             : *format == "mermaid" ? graph_as_mermaid(parsed, jobs)
                             : *format == "svg"     ? graph_as_svg(parsed, jobs)
                                                    : graph_as_text(parsed, jobs, session.style());
    std::fputs(text.c_str(), stdout);
  });
}

}  // namespace dlflow
