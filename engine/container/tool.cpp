#include "engine/container/tool.h"

#include <algorithm>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"

namespace dlflow {
namespace {

Output call(const std::vector<std::string>& argv, const std::vector<std::string>& variables) {
  return run({.argv = argv, .environment = changed_environment(variables)},
             {.collect_errors = true});
}

}  // namespace

void run_tool(const std::vector<std::string>& argv, const std::vector<std::string>& variables) {
  const Output output = call(argv, variables);
  if (output.status.code == 0) return;
  throw Error(Errc::InvalidInput, "an image cannot be made: `" + join(argv, " ") +
                                      "` ended with exit status " +
                                      std::to_string(output.status.code) + ": " +
                                      std::string(trim(output.errors + output.text)));
}

bool try_tool(const std::vector<std::string>& argv) { return call(argv, {}).status.code == 0; }

std::string output_of_tool(const std::vector<std::string>& argv) {
  try {
    const Output output = call(argv, {});
    return output.status.code == 0 ? output.text : "";
  } catch (const Error&) {  // there is no such program
    return "";
  }
}

std::vector<std::string> changed_environment(const std::vector<std::string>& changes) {
  std::vector<std::string> environment = current_environment();
  for (const std::string& change : changes) {
    const std::string name = change.substr(0, change.find('=') + 1);
    std::erase_if(environment, [&](const std::string& entry) { return entry.starts_with(name); });
    environment.push_back(change);
  }
  return environment;
}

}  // namespace dlflow
