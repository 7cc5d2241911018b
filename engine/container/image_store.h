#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/file_lock.h"
#include "engine/container/image_source.h"

/// Images as the runtimes of a cluster use them, unpacked once for all of its nodes.
///
///   CACHE/images/HEX/image.json    what it is; HEX is its digest
///   CACHE/images/HEX/rootfs        its root file system, read-only
///   CACHE/images/HEX/…             what a runtime needs instead, made from rootfs
///   CACHE/images/locks/HEX         held while the image is made, converted or removed
///   CACHE/images/locks/HEX.use     shared by those who run in it
///   CACHE/images/work/…            images that are being made
///
/// An image is complete once it has its name; what a kill leaves in work/ is swept by the next one
/// who makes an image.
namespace dlflow {

struct StoredImage {
  std::string digest;            ///< "sha256:…"
  std::string from;              ///< as it was called when it was unpacked
  std::filesystem::path folder;  ///< CACHE/images/HEX; empty for `dir:`
  std::filesystem::path rootfs;
  uint64_t bytes = 0;       ///< of the files in rootfs
  std::string tree_sha256;  ///< of rootfs, see hash_tree
  std::map<std::string, std::string> environment;
};

class ImageStore {
 public:
  /// What it does that takes long is said on `messages`. No image is fetched whose parts have more
  /// than `budget_bytes` (0: no limit).
  explicit ImageStore(const std::filesystem::path& cache, uint64_t budget_bytes = 0,
                      std::FILE* messages = stdout)
      : root_(private_part(cache) / "images"), budget_bytes_(budget_bytes), messages_(messages) {}

  /// The image with this digest, unpacked from `source` unless it is there. Of many callers at
  /// once, on any node, one unpacks and the others wait. Throws Error: InvalidInput if the source
  /// has another digest, or if there is no space for it; then the store is as before.
  StoredImage provide(const ImageSource& source, const std::string& digest);

  /// The image that `change` makes in a new folder under `digest`, unless it is there. The rest is
  /// as of `base`. Of many callers at once one makes it. Whatever `change` throws leaves the store
  /// as before.
  StoredImage derive(const StoredImage& base, const std::string& digest, const std::string& name,
                     const std::function<void(const std::filesystem::path& rootfs)>& change);

  std::optional<StoredImage> find(const std::string& digest) const;

  /// What a runtime needs of the image: the file or folder `name` beside rootfs, made by `make`
  /// unless it is there, under the image's lock. `make` gets its path: udocker writes that into the
  /// files, so it cannot be renamed later.
  std::filesystem::path converted(const StoredImage& image, const std::string& name,
                                  const std::function<void(const std::filesystem::path&)>& make);

  /// Forgets what converted() has made, so that it is made again. Nobody may use it.
  void drop_converted(const StoredImage& image, const std::string& name);

  /// Held by whoever changes what is in the image's folder.
  FileLock lock(const std::string& digest, const std::string& purpose);

  /// Says that it is used now, and keeps it from being removed while the returned lock lives.
  FileLock use(const StoredImage& image);
  static std::filesystem::file_time_type last_used(const StoredImage& image);

  /// All that are complete, the longest unused first.
  std::vector<StoredImage> list() const;

  /// False if somebody uses it: then it stays.
  bool remove(const StoredImage& image);

 private:
  std::filesystem::path use_lock(const std::string& digest) const;
  std::filesystem::path folder(const std::string& digest) const;
  StoredImage unpack(const ImageSource& source, const std::string& digest);
  StoredImage publish(StoredImage image);

  std::filesystem::path root_;
  uint64_t budget_bytes_;
  std::FILE* messages_;
};

}  // namespace dlflow
