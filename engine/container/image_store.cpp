#include "engine/container/image_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <random>

#include "base/archive/byte_source.h"
#include "base/error.h"
#include "base/file.h"
#include "base/file_identity.h"
#include "base/parse_json.h"
#include "base/remove_tree.h"
#include "base/sha256.h"
#include "base/units.h"
#include "engine/container/image_contents.h"
#include "engine/container/layer.h"
#include "engine/container/registry.h"
#include "engine/container/tree.h"

namespace dlflow {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StoredImage, digest, from, bytes, tree_sha256, environment)

namespace {

namespace fs = std::filesystem;
using Kind = ImageSource::Kind;

std::string name_of(const ImageSource& source) {
  switch (source.kind) {
    case Kind::Registry:
      return "docker://" + source.name;
    case Kind::DockerArchive:
      return "docker-archive:" + source.path.string();
    case Kind::Oci:
      return "oci:" + source.path.string();
    case Kind::Folder:
      break;
  }
  return "dir:" + source.path.string();
}

constexpr const char* kRemoved = "removed.";

/// The contents of an image on this machine. Its digest must be `digest` before and after reading.
ImageContents checked_contents(const ImageSource& source, const Digest& digest,
                               const fs::path& work) {
  const bool is_file = fs::is_regular_file(source.path);
  const FileIdentity before = identity_of(source.path);
  const Digest now = image_digest(source, [](const fs::path& file) { return sha256_file(file); });
  if (now != digest) {
    throw Error(Errc::InvalidInput, name_of(source) + " is " + now.text() + " now, but should be " +
                                        digest.text() + "; restore it, or start a new run");
  }
  if (!is_file) return oci_contents(source.path, digest);  // all parts are verified by hash
  ImageContents contents = image_contents(source, work);
  if (identity_of(source.path) != before) {
    throw Error(Errc::InvalidInput,
                name_of(source) + " was replaced while it was being unpacked; run the step again");
  }
  return contents;
}

/// A folder for an image under construction, removed afterwards. Its lock shows that its owner
/// lives.
class WorkFolder {
 public:
  explicit WorkFolder(const fs::path& all)
      : path_(all / (process_name() + "." + std::to_string(std::random_device{}()))),
        lease_(path_.string() + ".lease") {
    make_directories(all);
    lock_ = FileLock::acquire(lease_,
                              "unpacks an image");  // first, since a sweep spares locked folders
    make_directories(path_);
  }
  ~WorkFolder() { remove(path_); }

  const fs::path& path() const { return path_; }

  /// Removes the folders whose owners are dead.
  static void sweep(const fs::path& all) {
    std::error_code none;
    std::vector<fs::path> leases;
    for (const auto& entry : fs::directory_iterator(all, none)) {
      if (entry.path().extension() == ".lease") leases.push_back(entry.path());
      if (entry.path().filename().string().starts_with(kRemoved)) remove(entry.path());
    }
    for (const fs::path& lease : leases) {
      const auto lock = FileLock::try_acquire(lease, "sweeps");
      if (lock && lock->exclusive()) remove(fs::path(lease).replace_extension());
    }
  }

 private:
  static void remove(const fs::path& path) {
    try {
      remove_tree(path);
      remove_tree(path.string() + ".lease");
    } catch (const Error&) {
      return;  // the next sweep tries again
    }
  }

  fs::path path_;
  fs::path lease_;
  std::optional<FileLock> lock_;
};

bool is_zstd(const fs::path& path) {
  char magic[4] = {};
  return open_file(path)->read(magic) == 4 && std::string_view(magic, 4) == "\x28\xb5\x2f\xfd";
}

/// The limit for the unpacked data of all layers together.
struct Budget {
  ByteBudget bytes;
  uint64_t entries = 0;  ///< remaining
};

/// The number of entries to expect from the size of the image.
Budget budget_of(const ImageSource& source, const std::vector<fs::path>& layers) {
  uint64_t packed_bytes = 0;
  for (const fs::path& layer : layers) packed_bytes += fs::file_size(layer);
  // The layers of a packed archive have been decompressed already.
  if (fs::is_regular_file(source.path)) packed_bytes = fs::file_size(source.path);
  return {{max_unpacked_bytes(packed_bytes)}, max_unpacked_entries(packed_bytes)};
}

void apply(const fs::path& layer, const fs::path& rootfs, Budget& budget) {
  if (is_zstd(layer)) {
    throw Error(Errc::InvalidInput,
                "a layer of the image is compressed with zstd, which dlflow does not "
                "read; `skopeo copy --dest-compress-format gzip` repacks it");
  }
  const auto source =
      is_gzip(layer) ? limit_bytes(open_gzip(layer), budget.bytes, "the image") : open_file(layer);
  budget.entries -= apply_layer(*source, rootfs, budget.entries);
}

std::optional<StoredImage> read_image(const fs::path& folder) {
  const auto text = read_private_file(folder / "image.json");
  if (!text) return std::nullopt;
  require_private(folder);
  const auto damaged = [&] {
    return Error(Errc::Corrupt, (folder / "image.json").string() +
                                    " is damaged; remove the folder, and it is unpacked again");
  };
  const Json json = parse_json(*text);
  if (json.is_discarded()) throw damaged();
  try {
    auto image = json.get<StoredImage>();
    image.folder = folder;
    image.rootfs = folder / "rootfs";
    return image;
  } catch (const Json::exception&) {
    throw damaged();
  }
}

/// Ignores failures: a cache may be read-only.
void mark_used(const StoredImage& image) {
  ::utimensat(AT_FDCWD, (image.folder / "image.json").c_str(), nullptr, 0);
}

}  // namespace

fs::path ImageStore::folder(const Digest& digest) const { return root_ / digest.hex(); }

fs::path ImageStore::use_lock(const Digest& digest) const {
  return root_ / "locks" / (digest.hex() + ".use");
}

FileLock ImageStore::lock(const Digest& digest, const std::string& purpose) {
  make_directories(root_ / "locks");
  return FileLock::acquire(root_ / "locks" / digest.hex(), purpose);
}

std::optional<StoredImage> ImageStore::find(const Digest& digest) const {
  auto image = read_image(folder(digest));
  if (image && image->digest != digest) {
    throw Error(Errc::Corrupt, image->folder.string() + " holds another image, " +
                                   image->digest.text() +
                                   "; remove the folder, and it is unpacked again");
  }
  return image;
}

StoredImage ImageStore::unpack(const ImageSource& source, const Digest& digest) {
  WorkFolder::sweep(root_ / "work");
  const WorkFolder work(root_ / "work");
  ImageContents contents;
  if (source.kind == Kind::Registry) {
    fetch_image(source.name, digest, work.path() / "layout", budget_bytes_);
    contents = oci_contents(work.path() / "layout", digest);
  } else {
    contents = checked_contents(source, digest, work.path());
  }
  const fs::path made = work.path() / "image";
  StoredImage image{.digest = digest,
                    .from = name_of(source),
                    .folder = made,
                    .rootfs = made / "rootfs",
                    .tree_sha256 = {},
                    .environment = contents.environment};
  make_directories(image.rootfs);
  ::chmod(image.rootfs.c_str(), 0755);
  Budget budget = budget_of(source, contents.layers);
  for (const fs::path& layer : contents.layers) apply(layer, image.rootfs, budget);
  add_mount_points(image.rootfs);
  return publish(std::move(image));
}

/// Moves `image` from its work folder to its final name.
StoredImage ImageStore::publish(StoredImage image) {
  const TreeHash tree =
      hash_tree(image.rootfs, [](const fs::path& file) { return sha256_file(file); });
  image.bytes = tree.bytes;
  image.tree_sha256 = tree.sha256;
  make_read_only(image.rootfs);
  write_file_atomic(image.folder / "image.json", Json(image).dump(2) + "\n", Durability::Synced);
  // Without locks, another process may have published the same image first.
  const fs::path target = folder(image.digest);
  if (::rename(image.folder.c_str(), target.c_str()) != 0 && errno != ENOTEMPTY &&
      errno != EEXIST) {
    throw_errno("cannot write " + target.string(), errno);
  }
  return *find(image.digest);
}

StoredImage ImageStore::derive(const StoredImage& base, const Digest& digest,
                               const std::string& name,
                               const std::function<void(const fs::path&)>& change) {
  if (auto image = find(digest)) return *image;
  const FileLock making = lock(digest, "builds image '" + name + "'");
  if (auto image = find(digest)) return *image;  // built meanwhile
  std::fprintf(messages_, "building image '%s'\n", name.c_str());
  std::fflush(messages_);
  WorkFolder::sweep(root_ / "work");
  const WorkFolder work(root_ / "work");
  StoredImage image = base;
  image.digest = digest;
  image.from = base.from + " and the build of '" + name + "'";
  image.folder = work.path() / "image";
  image.rootfs = image.folder / "rootfs";
  make_directories(image.rootfs);
  change(image.rootfs);
  image = publish(std::move(image));
  std::fprintf(messages_, "built %s in %s\n", format_size(image.bytes).c_str(),
               image.folder.c_str());
  std::fflush(messages_);
  return image;
}

StoredImage ImageStore::provide(const ImageSource& source, const Digest& digest) {
  if (auto image = find(digest)) return *image;
  const FileLock making = lock(digest, "unpacks " + name_of(source));
  if (auto image = find(digest)) return *image;  // unpacked meanwhile
  std::fprintf(messages_, "unpacking %s\n", name_of(source).c_str());
  std::fflush(messages_);
  StoredImage image = unpack(source, digest);
  std::fprintf(messages_, "unpacked %s to %s\n", format_size(image.bytes).c_str(),
               image.folder.c_str());
  std::fflush(messages_);
  return image;
}

fs::path ImageStore::converted(const StoredImage& image, const std::string& name,
                               const std::function<void(const fs::path&)>& make) {
  fs::path path = image.folder / name;
  const fs::path ready = image.folder / (name + ".ready");
  std::error_code ignored;
  if (fs::exists(ready, ignored)) return path;
  const FileLock converting = lock(image.digest, "converts " + image.from);
  if (fs::exists(ready, ignored)) return path;
  remove_tree(path);  // left behind by a kill
  make(path);
  write_file_atomic(ready, "");
  return path;
}

void ImageStore::drop_converted(const StoredImage& image, const std::string& name) {
  const FileLock dropping = lock(image.digest, "converts " + image.from);
  remove_tree(image.folder / (name + ".ready"));
  remove_tree(image.folder / name);
}

fs::file_time_type ImageStore::last_used(const StoredImage& image) {
  std::error_code ignored;
  return fs::last_write_time(image.folder / "image.json", ignored);
}

std::vector<StoredImage> ImageStore::list() const {
  std::vector<StoredImage> images;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root_, none)) {
    if (auto image = read_image(entry.path())) images.push_back(std::move(*image));
  }
  std::sort(images.begin(), images.end(),
            [](const StoredImage& a, const StoredImage& b) { return last_used(a) < last_used(b); });
  return images;
}

bool ImageStore::remove(const StoredImage& image) {
  const FileLock removing = lock(image.digest, "removes " + image.from);
  const auto unused = FileLock::try_acquire(use_lock(image.digest), "removes it");
  if (!unused || !unused->exclusive()) return false;  // without locks, it may be in use
  // Renames it first, so that a kill leaves no partial image under its name.
  make_directories(root_ / "work");
  const fs::path gone = root_ / "work" / (kRemoved + image.digest.hex());
  remove_tree(gone);
  if (::rename(image.folder.c_str(), gone.c_str()) != 0) {
    throw_errno("cannot remove " + image.folder.string(), errno);
  }
  remove_tree(gone);
  return true;
}

FileLock ImageStore::use(const StoredImage& image) {
  make_directories(root_ / "locks");
  mark_used(image);
  return FileLock::share(use_lock(image.digest));
}

}  // namespace dlflow
