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
///   CACHE/images/locks/HEX.use     shared by processes that run in it
///   CACHE/images/work/…            images under construction
///
/// An image is complete once it has its name. The next process that makes an image removes what a
/// kill left in work/.
namespace dlflow {

struct StoredImage {
  Digest digest;
  std::string from;              ///< its source when it was unpacked
  std::filesystem::path folder;  ///< CACHE/images/HEX; empty for `dir:`
  std::filesystem::path rootfs;
  uint64_t bytes = 0;       ///< of the files in rootfs
  std::string tree_sha256;  ///< of rootfs, see hash_tree
  std::map<std::string, std::string> environment;
};

class ImageStore {
 public:
  /// Announces long operations on `messages`. Fetches no image whose parts have more than
  /// `budget_bytes` together (0: no limit).
  explicit ImageStore(const std::filesystem::path& cache, uint64_t budget_bytes = 0,
                      std::FILE* messages = stdout)
      : root_(private_part(cache) / "images"), budget_bytes_(budget_bytes), messages_(messages) {}

  /// The image with this digest, unpacked from `source` if needed. Among concurrent callers, on any
  /// node, one unpacks and the others wait. Throws Error, leaving the store unchanged: InvalidInput
  /// if the source has another digest, or if there is no space.
  StoredImage provide(const ImageSource& source, const Digest& digest);

  /// The image with `digest`; if the store lacks it, `change` makes its root file system in a new
  /// folder, and the rest is copied from `base`. Among concurrent callers one makes it. An
  /// exception of `change` leaves the store unchanged.
  StoredImage derive(const StoredImage& base, const Digest& digest, const std::string& name,
                     const std::function<void(const std::filesystem::path& rootfs)>& change);

  std::optional<StoredImage> find(const Digest& digest) const;

  /// The image in a runtime's form: the file or folder `name` beside rootfs, made by `make` under
  /// the image's lock if it is missing. `make` gets its final path: udocker writes the path into
  /// the files, so it cannot be renamed later.
  std::filesystem::path converted(const StoredImage& image, const std::string& name,
                                  const std::function<void(const std::filesystem::path&)>& make);

  /// Removes the result of converted(), so that it is made again. It must not be in use.
  void drop_converted(const StoredImage& image, const std::string& name);

  /// The lock for changes in the image's folder.
  FileLock lock(const Digest& digest, const std::string& purpose);

  /// Marks the image as used now, and keeps it from being removed while the returned lock lives.
  FileLock use(const StoredImage& image);
  static std::filesystem::file_time_type last_used(const StoredImage& image);

  /// All complete images, the longest unused first.
  std::vector<StoredImage> list() const;

  /// Removes the image and returns true, unless it is in use.
  bool remove(const StoredImage& image);

 private:
  std::filesystem::path use_lock(const Digest& digest) const;
  std::filesystem::path folder(const Digest& digest) const;
  StoredImage unpack(const ImageSource& source, const Digest& digest);
  StoredImage publish(StoredImage image);

  std::filesystem::path root_;
  uint64_t budget_bytes_;
  std::FILE* messages_;
};

}  // namespace dlflow
