#include "engine/container/environment.h"

#include <algorithm>

#include "base/process.h"

namespace dlflow {

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
