#include "runtime/data/class_names.h"

#include "base/file.h"
#include "base/text.h"

namespace dlflow::runtime {

std::vector<std::string> read_class_names(const std::filesystem::path& folder) {
  const auto text = read_file_if_exists(folder / kClassNames);
  return text ? split(trim(*text), '\n') : std::vector<std::string>();
}

}  // namespace dlflow::runtime
