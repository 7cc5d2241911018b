#include "base/temporary_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/remove_tree.h"

namespace dlflow {

TemporaryFolder::TemporaryFolder(const std::filesystem::path& beginning) {
  std::string name = beginning.string() + ".XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw_errno("cannot make " + name, errno);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  remove_tree(path_, ignored);
}

}  // namespace dlflow
