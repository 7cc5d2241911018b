#include "runtime/data/names.h"

#include "base/file.h"
#include "base/text.h"

namespace dlflow::runtime {

std::vector<std::string> read_names(const std::filesystem::path& file) {
  const auto text = read_file_if_exists(file);
  return text ? split(trim(*text), '\n') : std::vector<std::string>();
}

}  // namespace dlflow::runtime
