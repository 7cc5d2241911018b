#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dlflow {

/// A file or a package (a folder) that lies beside a Python script and that the script reads.
struct PythonModule {
  std::filesystem::path path;  ///< relative to the script's folder
  std::string reader;          ///< name of the file that reads it
  bool operator==(const PythonModule&) const = default;
};

/// Finds what the script imports from its own folder, and the Python files there that it names in
/// quotes (`exec(open('settings.py').read())`), recursively. Sorted by path. This is a heuristic on
/// lines of text: nothing is run.
std::vector<PythonModule> python_modules(const std::filesystem::path& script);

}  // namespace dlflow
