#pragma once

#include <filesystem>
#include <string>

#include "base/file.h"
#include "engine/store/store.h"
#include "tests/support/temp_dir.h"

namespace dlflow::test {

/// Copies the database of an empty store into `home`, which is returned. That takes a tenth of the
/// time that SQLite needs for all migrations.
inline std::filesystem::path with_tables(const std::filesystem::path& home) {
  static const std::string tables = [] {
    const TempDir folder;
    { const Store store(folder.path()); }
    return read_file(folder.path() / "dlflow.db");
  }();
  make_directories(home);
  write_file(home / "dlflow.db", tables);
  return home;
}

}  // namespace dlflow::test
