#include "engine/init/init.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/output_file.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/cli/commands.h"
#include "engine/cli/usage.h"
#include "engine/cli/workflow_argument.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

struct InitArguments {
  std::string source, data, target, walltime, output;
};

/// Asks on the terminal and returns the line that is typed.
std::string ask(const std::string& question) {
  std::fprintf(stderr, "%s ", question.c_str());
  std::string line;
  std::getline(std::cin, line);
  return std::string(trim(line));
}

void require(const std::string& path) {
  if (fs::exists(path)) return;
  std::vector<std::string> here;
  for (const auto& entry : fs::directory_iterator(".")) here.push_back(entry.path().filename());
  throw Error(Errc::NotFound, "there is no file or folder " + path + did_you_mean(path, here));
}

InitRequest request_of(const Session& session, const InitArguments& arguments) {
  require(arguments.source);
  if (!arguments.data.empty()) require(arguments.data);
  if (!arguments.walltime.empty()) parse_duration(arguments.walltime);  // throws if it is invalid
  InitRequest request{arguments.source, arguments.output, {},
                      arguments.data,   arguments.target, arguments.walltime};
  const std::string& named = arguments.output.empty() ? arguments.source : arguments.output;
  request.name = as_name(fs::absolute(named).lexically_normal().stem().string());
  if (arguments.output.empty()) request.workflow = request.name + ".yaml";
  const bool is_terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1;
  if (is_terminal && !session.quiet && !session.json) request.ask = ask;
  return request;
}

/// If one of the files is invalid, none is written.
std::vector<std::string> write_files(const std::vector<InitFile>& files) {
  for (const InitFile& file : files) {
    if (!fs::exists(file.path)) continue;
    throw Error(
        Errc::InvalidInput,
        file.path.string() + " already exists; remove it, or write another: dlflow init -o FILE");
  }
  std::vector<std::string> written;
  try {
    for (const InitFile& file : files) {
      write_output(file.path, file.content);
      written.push_back(file.path.string());
    }
    check_steps(WorkflowArgument{written.front(), {}}.read());
  } catch (...) {
    std::error_code ignored;
    for (const std::string& one : written) fs::remove(one, ignored);
    throw;
  }
  return written;
}

void init(Session& session, const InitArguments& arguments) {
  if (arguments.source.empty()) {
    if (session.json) throw UsageError("name a file or folder: dlflow init train.py --json");
    std::printf("Name what you have:\n%s", init_examples().c_str());
    return;
  }
  const InitRequest request = request_of(session, arguments);
  const std::vector<InitFile> files = init_files(request);
  const std::vector<std::string> written = write_files(files);
  if (session.json) return print_json({{"workflow", written.front()}, {"written", written}});
  std::fputs(escaped_lines(files.front().note).c_str(), stdout);
  std::printf("Wrote %s. Next:\n  dlflow run %s\n", join(written, ", ").c_str(),
              shell_quote(written.front()).c_str());
}

}  // namespace

void add_init(CLI::App& app, Session& session) {
  CLI::App* command = add_command(
      app, "init", "Write a first workflow, for a script, a table, pictures or a data set.", R"(
  dlflow init                       (lists what it takes)
  dlflow init train.py --data /scratch/pictures --walltime 4h
  dlflow init houses.csv --target price
  dlflow init photos                (a folder of pictures for each class))");
  const auto arguments = std::make_shared<InitArguments>();
  add_value(*command, "source", "WHAT", arguments->source, "a file or folder");
  add_value(*command, "--data", "FOLDER", arguments->data,
            "the data that the script reads, as $DATA");
  add_value(*command, "--target", "COLUMN", arguments->target,
            "the column of the table to learn; asked for on a terminal");
  add_value(*command, "--walltime", "TIME", arguments->walltime,
            "longest time that a job may take");
  add_output_option(*command, arguments->output, "the workflow; NAME.yaml unless given");
  add_json_option(*command, session);
  command->callback([arguments, &session] { init(session, *arguments); });
}

}  // namespace dlflow
