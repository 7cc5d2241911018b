#include <filesystem>

#include "engine/model/check.h"

namespace dlflow {

namespace fs = std::filesystem;

bool Checker::check_file(const YamlNode& node, const Wanted& wanted) {
  const fs::path file = node.scalar.get<std::string>();
  const bool folder_will_do = wanted.shape.form->exists == Form::Exists::FileOrFolder;
  std::error_code ignored;
  const fs::path place = names_.base / file;
  const auto status = fs::status(place, ignored);
  if (fs::is_regular_file(status) || (folder_will_do && fs::is_directory(status))) return true;
  if (fs::is_directory(place, ignored)) {
    mistakes_.add(node.location,
                  wanted.subject.name() + ": " + place.string() + " is a folder; give a file");
    return false;
  }
  if (fs::exists(status)) {
    mistakes_.add(node.location, wanted.subject.name() + ": " + place.string() +
                                     " is a pipe, a socket or a device, which cannot be copied "
                                     "into a run; let the step open it by its absolute path");
    return false;
  }
  std::vector<std::string> neighbours;
  for (const auto& entry : fs::directory_iterator(place.parent_path(), ignored)) {
    neighbours.push_back((file.parent_path() / entry.path().filename()).string());
  }
  const std::string advice = mistakes_.advice(file.string(), neighbours);
  mistakes_.add(node.location,
                wanted.subject.name() + ": there is no file " + place.string() + advice);
  return false;
}

}  // namespace dlflow
