#include "engine/model/workflow.h"

#include <cctype>

namespace dlflow {

std::string kind_name(const Step& step) { return step.uses.empty() ? "run" : step.uses; }

std::string environment_name(std::string_view prefix, std::string_view key) {
  std::string result(prefix);
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    result += std::isalnum(byte) != 0 ? char(std::toupper(byte)) : '_';
  }
  return result;
}

}  // namespace dlflow
