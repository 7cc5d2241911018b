#include "engine/cli/settings_check.h"

#include <string>

#include "runtime/settings/train_settings.h"

namespace dlflow {
namespace {

/// Paths go with every setting, whatever they are.
bool is_path(const StepKind& kind, const std::string& key) {
  return key == kind.model || key == kind.data || key == "start_from";
}

}  // namespace

std::optional<DataMistake> mistake_in_settings(const StepKind& kind, const Json& with) {
  if (!kind.divides_into_leaves) return std::nullopt;
  for (const auto& [key, value] : with.items()) {
    if (!is_path(kind, key) && !is_known(value)) return std::nullopt;
  }
  try {
    runtime::parse_train_settings(with);
    return std::nullopt;
  } catch (const runtime::SettingError& error) {
    const std::string& key = error.key();
    return DataMistake{"with." + key.substr(0, key.find('.')), error.what()};
  }
}

}  // namespace dlflow
