#include <algorithm>
#include <cstdio>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/cli/commands.h"
#include "engine/cli/usage.h"
#include "engine/cli/warnings.h"
#include "engine/cli/workflow_argument.h"
#include "engine/share/contents.h"
#include "engine/share/run_record.h"

namespace dlflow {
namespace {

struct PackArguments {
  std::shared_ptr<WorkflowArgument> workflow;
  std::string run;
  std::string output;
  std::vector<std::string> steps;  ///< steps whose results are packed; empty: all
  PackOptions options;
};

Plan plan_of_file(Session& session, const WorkflowArgument& argument) {
  const auto is_run = [&](const RunHead& run) { return run.run == argument.file; };
  if (!std::filesystem::exists(argument.file) &&
      std::ranges::any_of(session.store().runs(), is_run)) {
    throw UsageError(argument.file + " is a run: dlflow pack --from-run " + argument.file);
  }
  Workflow workflow = argument.read();
  check_steps(workflow);
  NothingKnown nothing;
  return make_plan(std::move(workflow), Profile{}, {}, nothing, session.store());
}

/// Throws unless the run has ended and has the given workflow.
void check_packable(const PackArguments& arguments, const ReportedRun& reported) {
  const std::string& run = reported.status.run;
  if (reported.status.state == RunState::Running) {
    throw Error(Errc::InvalidInput,
                run + " is still running; pack it when it has ended, or `dlflow cancel` it");
  }
  if (reported.status.state == RunState::Interrupted) {
    throw Error(Errc::InvalidInput, run + " was interrupted; `dlflow run --resume " + run +
                                        "` finishes it; then pack it");
  }
  if (arguments.workflow->file.empty()) return;
  if (arguments.workflow->read().text != reported.plan.workflow.text) {
    throw Error(Errc::InvalidInput, arguments.workflow->file + " is not what " + run +
                                        " ran; leave it out to pack the text that was run");
  }
}

Bundle bundle_of_run(Session& session, const PackArguments& arguments) {
  const ReportedRun run =
      read_reported_run(session, find_run(session, arguments.run), Detail::State);
  check_packable(arguments, run);
  Bundle bundle = collect(run.plan, arguments.options, session.store());
  const std::set<std::string> steps(arguments.steps.begin(), arguments.steps.end());
  for (const std::string& line : add_run(bundle, run, session.store(), steps)) {
    std::fprintf(stderr, "warning: %s\n", escaped_lines(line).c_str());
  }
  return bundle;
}

/// Prints what the bundle leaves out: "2 local files (--with-data)" and the like.
void print_what_is_missing(const Manifest& manifest, const std::vector<std::string>& left_out) {
  for (const std::string& name : left_out) {
    const bool absolute = std::filesystem::path(name).is_absolute();
    std::printf("Not included: %s, which a step reads in place; %s.\n", escaped(name).c_str(),
                absolute ? "it must exist on the other cluster, or be beside the workflow and be "
                           "named relative to it"
                         : "--with-data packs it");
  }
  size_t data = 0;
  size_t images = 0;
  for (const PackedData& item : manifest.data) data += item.packed ? 0 : 1;
  for (const auto& [name, image] : manifest.images) {
    images += image.packed || image.from.starts_with("docker://") ? 0 : 1;
  }
  if (data > 0) {
    std::printf("Not included: %s that stage steps read; --with-data packs them.\n",
                plural(data, "local file").c_str());
  }
  if (images > 0) {
    std::printf("Not included: %s; --with-images packs them.\n", plural(images, "image").c_str());
  }
}

void print_results(size_t num_results, const Manifest& manifest) {
  if (num_results == 0) return;
  uint64_t bytes = 0;
  for (const auto& [name, file] : manifest.files) {
    if (name.starts_with("run/steps/")) bytes += file.bytes;
  }
  std::printf("Results of %s, %s.\n", plural(num_results, "job").c_str(),
              format_size(bytes).c_str());
}

Json packed_json(const Bundle& bundle, const Manifest& manifest, const std::string& output) {
  Json missing = bundle.left_out;
  for (const PackedData& item : manifest.data) {
    if (!item.packed) missing.push_back(item.url);
  }
  return {{"file", output},
          {"bytes", std::filesystem::file_size(output)},
          {"files", manifest.files.size()},
          {"results", bundle.num_results},
          {"missing", std::move(missing)}};
}

void pack(Session& session, const PackArguments& arguments) {
  const Bundle bundle = arguments.run.empty() ? collect(plan_of_file(session, *arguments.workflow),
                                                        arguments.options, session.store())
                                              : bundle_of_run(session, arguments);
  std::fputs(warning_lines(machine_paths(bundle)).c_str(), stderr);
  const std::string output =
      arguments.output.empty() ? bundle.manifest.name + ".dlflow" : arguments.output;
  const Manifest manifest = write_bundle(bundle, output);
  if (session.json) return print_json(packed_json(bundle, manifest, output));
  if (session.quiet) return;
  std::printf("%s: %zu files, %s; `dlflow unpack --list %s` lists them.\n", output.c_str(),
              manifest.files.size(), format_size(std::filesystem::file_size(output)).c_str(),
              output.c_str());
  print_results(bundle.num_results, manifest);
  print_what_is_missing(manifest, bundle.left_out);
}

}  // namespace

void add_pack(CLI::App& app, Session& session) {
  CLI::App* command = add_command(
      app, "pack", "Put a workflow, or a run of it, into one file that runs elsewhere.", R"(
  dlflow pack workflows/fashion-mnist.yaml --with-data
  dlflow pack --from-run fashion-mnist-7f3a91c0 -o result.dlflow)");
  const auto arguments = std::make_shared<PackArguments>();
  arguments->workflow = add_workflow_argument(*command, false);
  add_output_option(*command, arguments->output, "the bundle; NAME.dlflow unless given");
  add_value(*command, "--from-run", "RUN", arguments->run,
            "pack this run: its workflow and its results");
  add_repeated_option(*command, "--step", "STEP", arguments->steps,
                      "with --from-run: pack only the results of this step; may be repeated");
  command->add_flag("--with-data", arguments->options.with_data,
                    "include the local files and data folders that steps read");
  command->add_flag("--with-images", arguments->options.with_images,
                    "include the archives of its images");
  add_json_option(*command, session);
  command->callback([arguments, &session] {
    if (arguments->workflow->file.empty() && arguments->run.empty()) {
      throw UsageError("give a workflow to pack, or `--from-run RUN`");
    }
    if (arguments->run.empty() && !arguments->steps.empty()) {
      throw UsageError("--step is for the results of a run; give `--from-run RUN`, too");
    }
    if (!arguments->run.empty() && !arguments->workflow->set.empty()) {
      throw UsageError("a run's parameters are fixed; --set is for packing a workflow");
    }
    pack(session, *arguments);
  });
}

}  // namespace dlflow
