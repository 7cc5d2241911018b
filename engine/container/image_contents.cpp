#include "engine/container/image_contents.h"

#include <sys/utsname.h>

#include <fstream>
#include <utility>

#include "base/archive/byte_source.h"
#include "base/archive/tar.h"
#include "base/error.h"
#include "base/file.h"
#include "base/parse_json.h"
#include "base/sha256.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// The maximum size of a manifest or a configuration; registries have the same limit.
constexpr uint64_t kMaxTextBytes = uint64_t{4} << 20;

Error corrupt(const std::string& what) { return Error(Errc::Corrupt, what); }

Json parse(const std::string& text, const std::string& what) {
  return parse_json_or_throw(text, what, {.max_depth = 64, .max_bytes = kMaxTextBytes});
}

/// Runs `read`, a reader of foreign JSON.
template <typename Read>
auto reading(const std::string& what, const Read& read) {
  try {
    return read();
  } catch (const Json::exception& error) {
    throw corrupt(what + " does not have the expected content: " + reason_of(error));
  }
}

/// An archive that holds an image. Its files are numbered, so that no name in it reaches the disk.
class PackedFiles : public ArchiveEntries {
 public:
  explicit PackedFiles(const fs::path& folder) : folder_(folder) {}

  void begin_file(const std::string& name, mode_t) override {
    const fs::path path = folder_ / std::to_string(files_.size());
    files_[normal(name)] = path;
    file_ = std::ofstream(path, std::ios::binary);
    path_ = path;
  }
  void write(std::string_view bytes) override {
    if (!file_.write(bytes.data(), std::streamsize(bytes.size()))) fail();
  }
  void add_symbolic_link(const std::string& name, const std::string& target) override {
    links_[normal(name)] = normal((fs::path(name).parent_path() / target).string());
  }
  void add_hard_link(const std::string& name, const std::string& target) override {
    links_[normal(name)] = normal(target);
  }
  void add_folder(const std::string&, mode_t) override {}
  void add_special_file(const std::string&) override {}

  void finish() {
    if (file_.is_open() && !file_.flush()) fail();
  }

  /// Null if the archive has no such file.
  const fs::path* find(const std::string& name) const {
    const auto link = links_.find(normal(name));
    const auto file = files_.find(link == links_.end() ? normal(name) : link->second);
    return file == files_.end() ? nullptr : &file->second;
  }

  const fs::path& at(const std::string& name, const fs::path& archive) const {
    if (const fs::path* const file = find(name)) return *file;
    throw corrupt(archive.string() + " lacks " + name + ", which it declares");
  }

 private:
  static std::string normal(const std::string& name) {
    return fs::path(name).lexically_normal().string();
  }
  [[noreturn]] void fail() const { throw_errno("cannot write " + path_.string(), errno); }

  fs::path folder_;
  std::map<std::string, fs::path> files_;
  std::map<std::string, std::string> links_;
  std::ofstream file_;
  fs::path path_;
};

PackedFiles unpack(const fs::path& archive, const fs::path& work) {
  PackedFiles files(work);
  ByteBudget budget{max_unpacked_bytes(fs::file_size(archive))};
  const auto source =
      is_gzip(archive) ? limit_bytes(open_gzip(archive), budget, "the image") : open_file(archive);
  read_tar(*source, files, max_unpacked_entries(fs::file_size(archive)));
  files.finish();
  return files;
}

std::map<std::string, std::string> environment_of(const Json& config) {
  std::map<std::string, std::string> environment;
  const Json settings = config.value("config", Json::object());
  if (!settings.is_object()) return environment;
  const Json list = settings.value("Env", Json::array());
  for (const Json& entry : list.is_null() ? Json::array() : list) {
    const auto text = entry.get<std::string>();
    const size_t equals = text.find('=');
    environment[text.substr(0, equals)] = equals == text.npos ? "" : text.substr(equals + 1);
  }
  return environment;
}

ImageContents docker_archive(const fs::path& archive, const fs::path& work) {
  const PackedFiles files = unpack(archive, work);
  const fs::path* const manifest = files.find("manifest.json");
  if (manifest == nullptr) {
    throw Error(Errc::InvalidInput,
                archive.string() + " has no manifest.json: it is not what `docker save` writes");
  }
  const std::string what = "manifest.json in " + archive.string();
  return reading(what, [&] {
    const Json list = parse(read_file(*manifest, kMaxTextBytes), what);
    if (list.size() != 1) {
      throw Error(Errc::InvalidInput, archive.string() + " holds " + std::to_string(list.size()) +
                                          " images; save only the one that you need");
    }
    const Json& image = list.at(0);
    ImageContents contents;
    const auto config = image.at("Config").get<std::string>();
    contents.environment =
        environment_of(parse(read_file(files.at(config, archive), kMaxTextBytes), config));
    for (const Json& layer : image.at("Layers")) {
      contents.layers.push_back(files.at(layer.get<std::string>(), archive));
    }
    return contents;
  });
}

/// Unpacks an OCI layout from one file into a folder.
fs::path unpack_layout(const fs::path& archive, const fs::path& work) {
  const PackedFiles files = unpack(archive, work);
  fs::path layout = work / "layout";
  make_directories(layout / "blobs/sha256");
  const fs::path* const index = files.find("index.json");
  if (index == nullptr) {
    throw Error(
        Errc::InvalidInput,
        archive.string() + " has no index.json: it is not an OCI image; is it docker-archive:?");
  }
  fs::rename(*index, layout / "index.json");
  const auto take_blob = [&](const Digest& digest) {
    const fs::path to = blob_path(layout, digest);
    if (fs::exists(to)) return;  // a layer may occur twice
    fs::rename(files.at("blobs/sha256/" + to.filename().string(), archive), to);
  };
  const auto text_of = [](const fs::path& file) { return read_file(file, kMaxTextBytes); };
  Digest digest = manifest_for_this_machine(text_of(layout / "index.json"), archive);
  take_blob(digest);
  if (const std::string list = text_of(blob_path(layout, digest)); is_image_index(list)) {
    digest = manifest_for_this_machine(list, archive);
    take_blob(digest);
  }
  for (const Blob& blob : blobs_of(text_of(blob_path(layout, digest)))) take_blob(blob.digest);
  return layout;
}

/// The path of the blob, after verifying its content.
fs::path checked_blob(const fs::path& layout, const Digest& digest) {
  fs::path path = blob_path(layout, digest);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) throw corrupt("the image lacks its part " + path.string());
  if (sha256_file(path) != digest.hex()) {
    throw corrupt("the image is damaged: " + path.string() +
                  " does not match the digest in its name");
  }
  return path;
}

}  // namespace

fs::path blob_path(const fs::path& layout, const Digest& digest) {
  return layout / "blobs/sha256" / digest.hex();
}

bool is_image_index(const std::string& manifest) {
  return parse(manifest, "the image's manifest").contains("manifests");
}

Digest manifest_for_this_machine(const std::string& index, const std::string& what) {
  utsname machine{};
  ::uname(&machine);
  const std::string here = machine.machine == std::string("aarch64") ? "arm64" : "amd64";
  return reading(what, [&] {
    Digest found;
    const Json json = parse(index, what);
    const Json& manifests = json.at("manifests");
    for (const Json& manifest : manifests) {
      const Json platform = manifest.value("platform", Json::object());
      const bool fits =
          platform.value("architecture", here) == here && platform.value("os", "linux") == "linux";
      if (fits && found.empty()) manifest.at("digest").get_to(found);
    }
    if (found.empty()) {
      throw Error(Errc::InvalidInput, what + " has no image for linux on " + here);
    }
    return found;
  });
}

std::vector<Blob> blobs_of(const std::string& manifest) {
  return reading("the image's manifest", [&] {
    const Json json = parse(manifest, "the image's manifest");
    const auto blob = [](const Json& part) {
      const Json size = part.value("size", Json(uint64_t{0}));
      if (!size.is_number_unsigned()) {
        throw corrupt("the image's manifest declares a part of " + size.dump() + " bytes");
      }
      return Blob{part.at("digest").get<Digest>(), size.get<uint64_t>()};
    };
    std::vector<Blob> blobs = {blob(json.at("config"))};
    for (const Json& layer : json.at("layers")) blobs.push_back(blob(layer));
    return blobs;
  });
}

Digest oci_manifest_digest(const fs::path& layout) {
  const fs::path index = layout / "index.json";
  if (!fs::exists(index)) {
    throw Error(Errc::InvalidInput, layout.string() + " has no index.json: it is not an OCI image");
  }
  const Digest digest = manifest_for_this_machine(read_file(index, kMaxTextBytes), layout.string());
  const std::string list = read_file(checked_blob(layout, digest), kMaxTextBytes);
  return is_image_index(list) ? manifest_for_this_machine(list, layout.string()) : digest;
}

ImageContents oci_contents(const fs::path& layout, const Digest& digest) {
  std::string manifest = read_file(checked_blob(layout, digest), kMaxTextBytes);
  if (is_image_index(manifest)) {
    const Digest chosen = manifest_for_this_machine(manifest, layout.string());
    manifest = read_file(checked_blob(layout, chosen), kMaxTextBytes);
  }
  const std::vector<Blob> blobs = blobs_of(manifest);
  ImageContents contents;
  for (const Blob& blob : blobs) contents.layers.push_back(checked_blob(layout, blob.digest));
  const fs::path config = contents.layers.front();
  contents.layers.erase(contents.layers.begin());
  contents.environment = reading(config.string(), [&] {
    return environment_of(parse(read_file(config, kMaxTextBytes), config.string()));
  });
  return contents;
}

ImageContents image_contents(const ImageSource& source, const fs::path& work) {
  if (source.kind == ImageSource::Kind::DockerArchive) return docker_archive(source.path, work);
  const bool packed = fs::is_regular_file(source.path);
  const fs::path layout = packed ? unpack_layout(source.path, work) : source.path;
  return oci_contents(layout, oci_manifest_digest(layout));
}

}  // namespace dlflow
