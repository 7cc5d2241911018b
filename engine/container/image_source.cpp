#include "engine/container/image_source.h"

#include "base/error.h"
#include "engine/container/image_contents.h"
#include "engine/container/tree.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using Kind = ImageSource::Kind;

struct Transport {
  std::string_view prefix;
  Kind kind;
};
constexpr Transport kTransports[] = {{"docker-archive:", Kind::DockerArchive},
                                     {"docker://", Kind::Registry},
                                     {"oci:", Kind::Oci},
                                     {"dir:", Kind::Folder}};

void check_there(const ImageSource& source) {
  std::error_code ignored;
  const bool folder = fs::is_directory(source.path, ignored);
  const bool file = fs::is_regular_file(source.path, ignored);
  if (!folder && !file) {
    throw Error(Errc::NotFound, "there is no " +
                                    std::string(source.kind == Kind::Folder ? "folder " : "file ") +
                                    source.path.string());
  }
  if (source.kind == Kind::Folder && !folder) {
    throw Error(Errc::InvalidInput, source.path.string() +
                                        " is a file; dir: takes a folder, "
                                        "docker-archive: and oci: take files");
  }
  if (source.kind == Kind::DockerArchive && !file) {
    throw Error(Errc::InvalidInput, source.path.string() +
                                        " is a folder; docker-archive: takes "
                                        "what `docker save` writes");
  }
}

}  // namespace

ImageSource image_source(const std::string& from, const fs::path& base) {
  for (const auto& [prefix, kind] : kTransports) {
    if (!from.starts_with(prefix)) continue;
    ImageSource source{.kind = kind, .path = {}, .name = {}, .digest = {}};
    const std::string rest = from.substr(prefix.size());
    if (kind != Kind::Registry) {
      source.path = (base / rest).lexically_normal();
      return source;
    }
    const size_t at = rest.find('@');
    source.name = rest.substr(0, at);
    if (at != rest.npos) source.digest = Digest(rest.substr(at + 1), "'" + from + "'");
    return source;
  }
  throw Error(Errc::InvalidInput, "'" + from + "' is not an image source");
}

Digest image_digest(const ImageSource& source,
                    const std::function<std::string(const fs::path&)>& sha256) {
  if (source.kind == Kind::Registry) {
    if (!source.digest.empty()) return source.digest;
    throw Error(Errc::InvalidInput,
                "docker://" + source.name +
                    " may point to another image tomorrow; add its `digest:`, which "
                    "`dlflow explain WORKFLOW` prints");
  }
  check_there(source);
  if (source.kind == Kind::Folder) return folder_digest(source.path, sha256);
  if (fs::is_directory(source.path)) return oci_manifest_digest(source.path);
  return Digest::of_hex(sha256(source.path));
}

}  // namespace dlflow
