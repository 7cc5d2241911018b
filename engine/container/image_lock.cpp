#include "engine/container/image_lock.h"

#include "base/digest.h"
#include "base/error.h"
#include "base/file.h"
#include "base/output_file.h"
#include "base/parse_json.h"

namespace dlflow {

namespace fs = std::filesystem;

fs::path image_lock_file(const fs::path& workflow) {
  return fs::path(workflow).replace_extension(".lock.json");
}

ImageLock read_image_lock(const fs::path& file) {
  const auto text = read_file_if_exists(file);
  if (!text) return {};
  const Json json = parse_json_or_throw(*text, file.string());
  try {
    ImageLock lock;
    for (const auto& [name, image] : json.at("images").items()) {
      lock[name] = {image.at("from").get<std::string>(),
                    checked_digest(image.at("digest"), file.string())};
    }
    return lock;
  } catch (const Json::exception& error) {
    throw Error(Errc::Corrupt, file.string() + " is no lock file (" + reason_of(error) +
                                   "); `dlflow lock` writes it anew once it is removed");
  }
}

std::string to_text(const ImageLock& lock) {
  Json images = Json::object();
  for (const auto& [name, image] : lock) {
    images[name] = {{"from", image.from}, {"digest", image.digest}};
  }
  return Json{{"images", images}}.dump(2) + "\n";
}

void write_image_lock(const fs::path& file, const ImageLock& lock) {
  write_output(file, to_text(lock));
}

}  // namespace dlflow
