#include "steps/transfer/listed_names.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/text.h"

namespace dlflow::steps {

bool is_safe_name(const std::string& name) {
  if (name.empty() || find_invalid_utf8(name) != std::string::npos) return false;
  if (std::any_of(name.begin(), name.end(), [](unsigned char letter) { return letter < ' '; })) {
    return false;
  }
  const std::vector<std::string> parts = split(name, '/');
  return std::none_of(parts.begin(), parts.end(), [](const std::string& part) {
    return part.empty() || part == "." || part == "..";
  });
}

std::vector<RemoteFile> named_files(const Address& address, std::vector<RemoteFile> listed) {
  const UrlPath& place = address.place;
  if (place.is_file()) {
    if (listed.size() != 1) {
      throw Error(Errc::NotFound, address.display() + ": there is no such file");
    }
    listed.front().name.clear();
    return listed;
  }
  if (!place.pattern.empty()) {
    std::erase_if(listed,
                  [&](const RemoteFile& file) { return !matches(file.name, place.pattern); });
  }
  for (const RemoteFile& file : listed) {
    if (!is_safe_name(file.name)) {
      throw Error(Errc::InvalidInput, address.display() + ": the file name '" + file.name +
                                          "' cannot be staged; pack the folder to an archive");
    }
  }
  if (listed.empty()) {
    throw Error(Errc::NotFound,
                address.display() + (place.is_folder ? ": there are no files in it"
                                                     : ": no file has a name like this"));
  }
  std::sort(listed.begin(), listed.end(),
            [](const RemoteFile& a, const RemoteFile& b) { return a.name < b.name; });
  return listed;
}

}  // namespace dlflow::steps
