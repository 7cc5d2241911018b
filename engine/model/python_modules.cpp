#include "engine/model/python_modules.h"

#include <fstream>
#include <map>

#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFiles = 1000;
constexpr uintmax_t kMostBytes = uintmax_t{1} << 22;

bool is_file(const fs::path& path) {
  std::error_code none;
  return fs::is_regular_file(path, none);
}

/// Adds a and d for "a.b as c, d".
void add_imported(std::string_view list, std::vector<std::string>& names) {
  for (const std::string& entry : split(std::string(list), ',')) {
    const std::string_view word = trim(entry);
    const size_t end = word.find_first_of(". \t#;");
    if (!word.empty()) names.emplace_back(word.substr(0, end));
  }
}

/// The names of modules that one line imports.
std::vector<std::string> imported_by(std::string_view line) {
  line = trim(line);
  std::vector<std::string> names;
  if (line.starts_with("import ")) {
    add_imported(line.substr(7), names);
  } else if (line.starts_with("from ")) {
    std::string_view module = trim(line.substr(5));
    module.remove_prefix(std::min(module.size(), module.find_first_not_of('.')));
    const size_t end = module.find_first_of(". \t");
    if (end != 0 && end != std::string_view::npos) names.emplace_back(module.substr(0, end));
  }
  return names;
}

/// The Python files that the line names in quotes.
std::vector<std::string> quoted_by(std::string_view line) {
  std::vector<std::string> names;
  for (const char quote : {'\'', '"'}) {
    for (size_t begin = line.find(quote); begin != std::string_view::npos;) {
      const size_t end = line.find(quote, begin + 1);
      if (end == std::string_view::npos) break;
      const std::string_view text = line.substr(begin + 1, end - begin - 1);
      if (text.ends_with(".py") && !text.starts_with('/') && text.find("..") == text.npos) {
        names.emplace_back(text);
      }
      begin = line.find(quote, end + 1);
    }
  }
  return names;
}

class Search {
 public:
  explicit Search(fs::path folder) : folder_(std::move(folder)) {}

  void read(const fs::path& file) {
    std::error_code none;
    if (++files_ > kMostFiles || fs::file_size(file, none) > kMostBytes) return;
    std::ifstream stream(file, std::ios::binary);
    for (std::string line; std::getline(stream, line);) {
      for (const std::string& name : imported_by(line)) add_module(name, file);
      for (const std::string& name : quoted_by(line)) {
        if (is_file(folder_ / name)) add(name, file);
      }
    }
  }

  std::map<fs::path, std::string> found;

 private:
  void add_module(const std::string& name, const fs::path& reader) {
    std::error_code none;
    if (is_file(folder_ / (name + ".py"))) return add(name + ".py", reader);
    if (fs::is_directory(folder_ / name, none) && has_python(folder_ / name)) add(name, reader);
  }

  static bool has_python(const fs::path& folder) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none)) {
      if (entry.path().extension() == ".py") return true;
    }
    return false;
  }

  void add(const fs::path& path, const fs::path& reader) {
    if (!found.emplace(path, reader.filename().string()).second) return;
    std::error_code none;
    if (!fs::is_directory(folder_ / path, none)) return read(folder_ / path);
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / path, none)) {
      if (entry.path().extension() == ".py" && is_file(entry.path())) read(entry.path());
    }
  }

  fs::path folder_;
  size_t files_ = 0;
};

}  // namespace

std::vector<PythonModule> python_modules(const fs::path& script) {
  Search search(script.parent_path());
  search.read(script);
  search.found.erase(script.filename());
  std::vector<PythonModule> modules;
  for (const auto& [path, reader] : search.found) modules.push_back({path, reader});
  return modules;
}

}  // namespace dlflow
