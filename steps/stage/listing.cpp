#include "steps/stage/listing.h"

#include "base/sha256.h"

namespace dlflow::steps {

Json to_json(const Listing& listing) {
  Json files = Json::array();
  for (const auto& [name, file] : listing) {
    Json entry = {{"name", name}};
    if (file.link_target.empty()) {
      entry["sha256"] = file.sha256;
      entry["bytes"] = file.bytes;
      if (file.executable) entry["executable"] = true;
    } else {
      entry["link"] = file.link_target;
    }
    files.push_back(std::move(entry));
  }
  return {{"files", files}};
}

std::optional<Listing> listing_from_json(const Json& json) {
  try {
    Listing listing;
    for (const Json& entry : json.at("files")) {
      listing[entry.at("name")] = {.sha256 = entry.value("sha256", ""),
                                   .bytes = entry.value("bytes", uint64_t{0}),
                                   .executable = entry.value("executable", false),
                                   .link_target = entry.value("link", "")};
    }
    return listing;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::string hash_of(const Listing& listing) {
  Sha256 hash;
  for (const auto& [name, file] : listing) {
    hash.update(file.link_target.empty() ? file.sha256 : "-> " + file.link_target);
    hash.update(file.executable ? " x" : "  ").update(name).update("\n");
  }
  return hash.hex();
}

}  // namespace dlflow::steps
