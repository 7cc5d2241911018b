#include "engine/container/container_environment.h"

#include <unistd.h>

#include "base/process.h"
#include "base/text.h"
#include "engine/ranks/rank_variables.h"

namespace dlflow {

std::string user_name() {
  const Output output =
      run({.argv = {"id", "-un"}, .environment = current_environment()}, {.collect_errors = true});
  if (output.status.code == 0) return std::string(trim(output.text));
  const std::string user = environment_variable("USER");
  return user.empty() ? std::to_string(::geteuid()) : user;
}

void add_passed_on(std::map<std::string, std::string>& environment,
                   const std::vector<std::string>& callers) {
  for (const std::string& entry : callers) {
    const size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    if (is_passed_on(name)) environment.emplace(name, entry.substr(equals + 1));
  }
}

void add_rank(std::map<std::string, std::string>& environment, const RankPlan& plan) {
  for (const auto& [name, value] : rank_variables(plan)) environment[name] = value;
  for (const std::string& name : misleading_variables(plan)) environment.erase(name);
}

std::map<std::string, std::string> container_environment(
    const ContainerJob& job, const std::map<std::string, std::string>& image,
    const std::vector<std::string>& callers, const std::string& user) {
  std::map<std::string, std::string> environment = job.environment;
  add_passed_on(environment, callers);
  // Keeps Open MPI from reading other ranks' memory, which user namespaces do not allow.
  environment.emplace("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
  environment.emplace("HOME", job.directory.string());
  environment.emplace("USER", user);
  environment.emplace("LOGNAME", user);
  const std::string temporary = environment_variable("TMPDIR");
  environment.emplace("TMPDIR", temporary.empty() ? "/tmp" : temporary);
  environment.insert(image.begin(), image.end());
  environment.emplace("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
  environment["PATH"] += ":" + this_program().parent_path().string();
  return environment;
}

}  // namespace dlflow
