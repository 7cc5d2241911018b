#include "engine/cli/step_program.h"

#include "base/error.h"

namespace dlflow {

Command step_program(const std::string& name, const std::filesystem::path& folder,
                     const std::vector<std::string>& arguments) {
  const std::filesystem::path program = this_program().parent_path() / name;
  if (!std::filesystem::exists(program)) {
    throw Error(Errc::NotFound, program.string() + " is not there; install it beside dlflow");
  }
  Command command;
  command.argv = {program.string()};
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  command.environment = current_environment();
  std::erase_if(command.environment, [](const auto& one) { return one.starts_with("DLFLOW_"); });
  command.directory = folder;
  return command;
}

}  // namespace dlflow
