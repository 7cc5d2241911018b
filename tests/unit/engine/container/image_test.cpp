#include <sys/stat.h>

#include "base/archive/byte_source.h"
#include "base/sha256.h"
#include "engine/container/image_contents.h"
#include "engine/container/image_source.h"
#include "engine/container/image_store.h"
#include "engine/container/registry.h"
#include "engine/container/tree.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/syscalls.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/steps/stage/archives.h"
#include "tests/unit/steps/transfer/servers.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using Kind = ImageSource::Kind;

std::string hash_of(const fs::path& file) { return sha256_file(file); }

/// Returns the output of `docker save` for an image with one file.
std::string saved_image(const std::string& manifest) {
  return test::tar({{"0/layer.tar", test::tar({{"etc/name", "box"}})},
                    {"config.json", R"({"config": {"Env": ["PATH=/opt/bin", "EMPTY"]}})"},
                    {"manifest.json", manifest}});
}
const std::string kManifest = R"([{"Config": "config.json", "Layers": ["0/layer.tar"]}])";

class Store {
 public:
  ~Store() {
    for (const StoredImage& image : store.list()) store.remove(image);
  }
  /// Unpacks `archive`.
  StoredImage provide(const std::string& archive) {
    const ImageSource source =
        image_source("docker-archive:" + folder.write("image.tar", archive).string(), "/");
    return store.provide(source, image_digest(source, hash_of));
  }

  test::TempDir folder;
  ImageStore store{folder.path() / "cache"};
};

/// Returns an image that has the same layer twice.
std::string with_twice(const std::string& layer) {
  return test::tar({{"0/layer.tar", layer},
                    {"1/layer.tar", layer},
                    {"config.json", "{}"},
                    {"manifest.json",
                     R"([{"Config": "config.json", "Layers": ["0/layer.tar", "1/layer.tar"]}])"}});
}

}  // namespace

TEST_CASE("a source is a kind with a path or a name", "[container]") {
  CHECK(image_source("oci:images/x", "/flows") ==
        ImageSource{Kind::Oci, "/flows/images/x", "", {}});
  CHECK(image_source("docker-archive:/x.tar", "/flows").path == "/x.tar");
  const Digest digest = Digest::of_hex(sha256_hex("an image"));
  CHECK(image_source("docker://ghcr.io/a/b:1@" + digest.text(), "/flows") ==
        ImageSource{Kind::Registry, "", "ghcr.io/a/b:1", digest});
}

TEST_CASE("a missing or unpinned source is reported", "[container]") {
  const auto digest = [](const std::string& from) {
    return image_digest(image_source(from, "/nowhere"), hash_of);
  };
  CHECK_THROWS_WITH(digest("docker-archive:x.tar"), "there is no file /nowhere/x.tar");
  CHECK_THROWS_WITH(digest("dir:x"), "there is no folder /nowhere/x");
  CHECK_THROWS_WITH(digest("docker-archive:/etc"), Contains("/etc is a folder"));
  CHECK_THROWS_WITH(digest("oci:/etc"), Contains("/etc has no index.json"));
  CHECK_THROWS_WITH(digest("docker://python:3"), Contains("add its `digest:`"));
}

TEST_CASE("names in registries mean the same as for docker", "[container]") {
  CHECK(registry_name("python") ==
        RegistryName{"https://registry-1.docker.io", "library/python", "latest"});
  CHECK(registry_name("docker.io/pytorch/pytorch:2.4") ==
        RegistryName{"https://registry-1.docker.io", "pytorch/pytorch", "2.4"});
  CHECK(registry_name("localhost:5000/a/b:c") == RegistryName{"http://localhost:5000", "a/b", "c"});
  CHECK(registry_name("[::1]:5000/a/b").server == "http://[::1]:5000");
  for (const char* const host : {"localhost.example.org", "127.0.0.1.example.org:5000"}) {
    CHECK(registry_name(std::string(host) + "/a/b").server == std::string("https://") + host);
  }
  CHECK(registry_name("ghcr.io/a/b") == RegistryName{"https://ghcr.io", "a/b", "latest"});
}

TEST_CASE("a saved image is unpacked with its environment", "[container]") {
  Store store;
  const StoredImage image = store.provide(saved_image(kManifest));
  CHECK(read_file(image.rootfs / "etc/name") == "box");
  CHECK(image.environment ==
        std::map<std::string, std::string>{{"PATH", "/opt/bin"}, {"EMPTY", ""}});
  CHECK(image.bytes == 3);
  CHECK(fs::is_directory(image.rootfs / "proc"));
  CHECK(store.provide(saved_image(kManifest)).folder == image.folder);
  CHECK(fs::is_empty(store.folder.path() / "cache/images/work"));
}

TEST_CASE("an archive that is not an image is refused without leftovers", "[container]") {
  Store store;
  const auto [archive, message] = GENERATE(table<std::string, std::string>({
      {test::tar({{"x", "y"}}), "has no manifest.json"},
      {saved_image("[]"), "holds 0 images"},
      {saved_image(R"([{"Config": "config.json", "Layers": ["1/layer.tar"]}])"),
       "lacks 1/layer.tar"},
      {saved_image("{"), "is not JSON"},
      {saved_image(R"([{"Layers": []}])"), "does not have the expected content"},
      {std::string(700, 'x'), "the tar archive is damaged"},
  }));
  CHECK_THROWS_WITH(store.provide(archive), Contains(message));
  CHECK(store.store.list().empty());
  CHECK(fs::is_empty(store.folder.path() / "cache/images/work"));
}

TEST_CASE("layers that unpack to far more than their image's size are refused without leftovers",
          "[container]") {
  Store store;
  // Twice 576 MiB of zeros in 1 MB: gzip files may be concatenated.
  constexpr size_t kPiece = size_t{64} << 20;
  std::string header = test::tar_entry({"bomb"});
  header.replace(124, 11, "04400000000");  // 576 MiB, octal
  header.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char byte : header) sum += uint8_t(byte);
  char text[9];
  std::snprintf(text, sizeof text, "%06o%c ", sum, '\0');
  header.replace(148, 8, text, 8);
  const std::string zeros = test::gzip(std::string(kPiece, '\0'));
  std::string layer = test::gzip(header);
  for (int piece = 0; piece < 9; ++piece) layer += zeros;
  layer += test::gzip(std::string(1024, '\0'));
  CHECK_THROWS_WITH(store.provide(with_twice(layer)),
                    Contains("the image unpacks to more than 1.0 GiB"));
  CHECK(store.store.list().empty());
  CHECK(fs::is_empty(store.folder.path() / "cache/images/work"));
}

TEST_CASE("the layers of an image share the entry limit of one layer", "[container]") {
  Store store;
  const std::string null = test::tar_entry({.name = "null", .type = '3'});
  const uint64_t entries = max_unpacked_entries(0) - 10'000;
  std::string many;
  for (int i = 0; i < 10'000; ++i) many += null;
  const std::string packed = test::gzip(many);
  std::string layer;
  for (uint64_t i = 0; i < entries; i += 10'000) layer += packed;
  layer += test::gzip(std::string(1024, '\0'));
  CHECK_THROWS_WITH(store.provide(with_twice(layer)), Contains("the tar archive has more than"));
  CHECK(store.store.list().empty());
}

TEST_CASE("a source that changed since it was pinned is refused", "[container]") {
  Store store;
  const fs::path file = store.folder.write("image.tar", saved_image(kManifest));
  const ImageSource source = image_source("docker-archive:" + file.string(), "/");
  const Digest digest = Digest::of_hex(std::string(64, '0'));
  CHECK_THROWS_WITH(store.store.provide(source, digest),
                    Contains("but should be " + digest.text()));
}

TEST_CASE("an image that is replaced during unpacking never gets another one's digest",
          "[container]") {
  const std::string other = test::tar({{"0/layer.tar", test::tar({{"etc/name", "fox"}})},
                                       {"config.json", "{}"},
                                       {"manifest.json", kManifest}});
  bool any_left = true;
  for (int exchanged = 1; any_left; ++exchanged) {
    CAPTURE(exchanged);
    Store store;
    const fs::path file = store.folder.write("image.tar", saved_image(kManifest));
    const fs::path next = store.folder.write("next.tar", other);
    const ImageSource source = image_source("docker-archive:" + file.string(), "/");
    const Digest digest = image_digest(source, hash_of);
    int opened = 0;
    const auto exchange = [&](uint64_t call) {
      if (call == SYS_openat && ++opened == exchanged) fs::rename(next, file);
      return test::Fate::made();
    };
    if (!test::run_watched(exchange, [&] { store.store.provide(source, digest); })) {
      return test::skip("processes cannot be traced");
    }
    any_left = opened >= exchanged;
    const auto image = store.store.find(digest);
    if (image) CHECK(read_file(image->rootfs / "etc/name") == "box");
  }
}

TEST_CASE("an image in use stays", "[container]") {
  Store store;
  const StoredImage image = store.provide(saved_image(kManifest));
  {
    const FileLock use = store.store.use(image);
    CHECK_FALSE(store.store.remove(image));
  }
  CHECK(store.store.remove(image));
  CHECK_FALSE(store.store.find(image.digest));
}

TEST_CASE("a cached image that other users made or can write to is never run",
          "[container][attack]") {
  Store store;
  const StoredImage image = store.provide(saved_image(kManifest));
  const fs::path settings = image.folder / "image.json";
  SECTION("its folder is open to others") {
    fs::permissions(image.folder, fs::perms(0770));
    CHECK_THROWS_WITH(store.store.find(image.digest), Contains("is open to other users"));
    fs::permissions(image.folder, fs::perms(0700));
  }
  SECTION("its folder belongs to another user") {
    if (::geteuid() != 0) return test::skip("only root can give a folder away");
    REQUIRE(::chown(image.folder.c_str(), 12345, 12345) == 0);
    CHECK_THROWS_WITH(store.store.find(image.digest), Contains("belongs to another user (12345)"));
    REQUIRE(::chown(image.folder.c_str(), 0, 0) == 0);
  }
  SECTION("it is another image under this one's name") {
    const std::string text = read_file(settings);
    std::string other = text;
    other.replace(other.find("sha256:") + 7, 4, "0000");
    write_file_atomic(settings, other);
    CHECK_THROWS_WITH(store.store.find(image.digest), Contains("holds another image"));
    write_file_atomic(settings, text);
  }
  SECTION("its record is nested a million levels deep") {
    const std::string text = read_file(settings);
    write_file_atomic(settings, std::string(1'000'000, '['));
    CHECK_THROWS_WITH(store.store.find(image.digest), Contains("is damaged"));
    write_file_atomic(settings, text);
  }
  CHECK(store.store.find(image.digest).has_value());
}

TEST_CASE("the form of an image that a runtime needs is made once", "[container]") {
  Store store;
  const StoredImage image = store.provide(saved_image(kManifest));
  int made = 0;
  const auto make = [&](const fs::path& path) {
    ++made;
    write_file_atomic(path, "converted");
    if (made == 1) throw Error(Errc::InvalidInput, "no space");
  };
  CHECK_THROWS(store.store.converted(image, "image.sqsh", make));
  CHECK(read_file(store.store.converted(image, "image.sqsh", make)) == "converted");
  store.store.converted(image, "image.sqsh", make);
  CHECK(made == 2);
}

TEST_CASE("an OCI layout has the content of its digests", "[container]") {
  const test::TempDir folder;
  const auto blob = [&](const std::string& content) {
    const std::string digest = sha256_hex(content);
    folder.write("oci/blobs/sha256/" + digest, content);
    return R"({"digest": "sha256:)" + digest + R"("})";
  };
  const std::string layer = test::gzip(test::tar({{"etc/name", "box"}}));
  const std::string manifest = R"({"config": )" + blob(R"({"config": {"Env": null}})") +
                               R"(, "layers": [)" + blob(layer) + "]}";
  folder.write("oci/index.json", R"({"manifests": [)" + blob(manifest) + "]}");
  const fs::path layout = folder.path() / "oci";
  const Digest digest = oci_manifest_digest(layout);
  CHECK(digest == Digest::of_hex(sha256_hex(manifest)));
  CHECK(oci_contents(layout, digest).layers.size() == 1);
  folder.write("oci/blobs/sha256/" + sha256_hex(layer), "damaged");
  CHECK_THROWS_WITH(oci_contents(layout, digest), Contains("the image is damaged"));
}

TEST_CASE("an OCI image in one file may have a layer twice, but no invalid digest", "[container]") {
  const std::string config = "{}", layer = test::tar({{"etc/name", "box"}});
  const std::string twice = R"({"digest": "sha256:)" + sha256_hex(layer) + R"("})";
  const std::string manifest = R"({"config": {"digest": "sha256:)" + sha256_hex(config) +
                               R"("}, "layers": [)" + twice + ", " + twice + "]}";
  const auto packed = [&](const std::string& digest) {
    return test::tar({{"blobs/sha256/" + sha256_hex(config), config},
                      {"blobs/sha256/" + sha256_hex(layer), layer},
                      {"blobs/sha256/" + sha256_hex(manifest), manifest},
                      {"index.json", R"({"manifests": [{"digest": ")" + digest + R"("}]})"}});
  };
  const test::TempDir folder;
  const auto contents = [&](const std::string& digest) {
    const fs::path file = folder.write("image.tar", packed(digest));
    return image_contents({.kind = Kind::Oci, .path = file, .name = {}, .digest = {}},
                          folder.path());
  };
  CHECK(contents("sha256:" + sha256_hex(manifest)).layers.size() == 2);
  CHECK_THROWS_WITH(contents("x"), Contains("'x' is not a digest"));
}

TEST_CASE("a digest that leads out of the cache is refused everywhere", "[container][attack]") {
  const test::TempDir folder;
  const fs::path canary = folder.write("canary", "precious");
  const std::string evil = "sha256:../../../canary";
  SECTION("an OCI folder's index") {
    folder.write("oci/index.json", R"({"manifests": [{"digest": ")" + evil + R"("}]})");
    CHECK_THROWS_WITH(oci_manifest_digest(folder.path() / "oci"), Contains("'" + evil));
  }
  SECTION("an OCI folder's list of manifests") {
    const std::string list = R"({"manifests": [{"digest": ")" + evil + R"("}]})";
    folder.write("oci/blobs/sha256/" + sha256_hex(list), list);
    folder.write("oci/index.json",
                 R"({"manifests": [{"digest": "sha256:)" + sha256_hex(list) + R"("}]})");
    CHECK_THROWS_WITH(oci_manifest_digest(folder.path() / "oci"), Contains("'" + evil));
  }
  SECTION("a manifest's configuration and layers") {
    const std::string good = R"({"digest": "sha256:)" + sha256_hex("x") + R"("})";
    const std::string bad = R"({"digest": ")" + evil + R"("})";
    CHECK_THROWS_WITH(blobs_of(R"({"config": )" + bad + R"(, "layers": []})"), Contains(evil));
    CHECK_THROWS_WITH(blobs_of(R"({"config": )" + good + R"(, "layers": [)" + bad + "]}"),
                      Contains(evil));
  }
  SECTION("an address") {
    CHECK_THROWS_WITH(image_source("docker://python@" + evil, "/"), Contains("'" + evil));
  }
  SECTION("the store itself") {
    ImageStore store(folder.path() / "a/b/cache");
    CHECK_THROWS_AS(store.find(Digest()), Error);
    CHECK_THROWS_AS(store.lock(Digest(), "tests"), Error);
  }
  CHECK(read_file(canary) == "precious");
}

TEST_CASE("leftovers of a killed unpacking are removed, and those of other processes stay",
          "[container]") {
  Store store;
  const fs::path work = store.folder.path() / "cache/images/work";
  make_directories(work / "dead");
  write_file_atomic(work / "dead.lease", "");
  make_directories(work / "removed.1234");
  make_directories(work / "alive");
  const FileLock owner = FileLock::acquire(work / "alive.lease", "unpacks an image");
  store.provide(saved_image(kManifest));
  CHECK_FALSE(fs::exists(work / "dead"));
  CHECK_FALSE(fs::exists(work / "dead.lease"));
  CHECK_FALSE(fs::exists(work / "removed.1234"));
  CHECK(fs::exists(work / "alive"));
}

TEST_CASE("images are listed by their last use, oldest first", "[container]") {
  Store store;
  std::vector<Digest> digests;
  for (const char* name : {"a", "b", "c"}) {
    const std::string archive = test::tar({{"0/layer.tar", test::tar({{name, "box"}})},
                                           {"config.json", "{}"},
                                           {"manifest.json", kManifest}});
    digests.push_back(store.provide(archive).digest);
  }
  const auto listed = [&] {
    std::vector<Digest> found;
    for (const StoredImage& image : store.store.list()) found.push_back(image.digest);
    return found;
  };
  const auto used = [&](size_t image, int hours_ago) {
    fs::last_write_time(store.store.find(digests[image])->folder / "image.json",
                        fs::file_time_type::clock::now() - std::chrono::hours(hours_ago));
  };
  used(0, 3);
  used(1, 1);
  used(2, 2);
  CHECK(listed() == std::vector<Digest>{digests[0], digests[2], digests[1]});
  { const FileLock use = store.store.use(*store.store.find(digests[0])); }
  CHECK(listed() == std::vector<Digest>{digests[2], digests[1], digests[0]});
}

TEST_CASE("an image with a damaged record is reported, not run", "[container]") {
  Store store;
  const StoredImage image = store.provide(saved_image(kManifest));
  const fs::path settings = image.folder / "image.json";
  const std::string good = read_file(settings);
  for (const char* bad : {"{", "{}"}) {
    write_file_atomic(settings, bad);
    CHECK_THROWS_WITH(store.store.find(image.digest), Contains("is damaged; remove the folder"));
  }
  write_file_atomic(settings, good);
}

TEST_CASE("an unpacked image is identified by its files, and its folders are read-only",
          "[container]") {
  Store store;
  const StoredImage image = store.provide(saved_image(kManifest));
  CHECK(image.tree_sha256 == hash_tree(image.rootfs, hash_of).sha256);
  CHECK((fs::status(image.rootfs).permissions() & fs::perms::all) == fs::perms(0555));
  CHECK((fs::status(image.rootfs / "etc").permissions() & fs::perms(0222)) == fs::perms::none);
  CHECK(fs::read_symlink(image.rootfs / "etc/mtab") == "/proc/mounts");
}

TEST_CASE("an unpacked image is announced with its size", "[container]") {
  const test::TempDir folder;
  char* text = nullptr;
  size_t size = 0;
  std::FILE* messages = ::open_memstream(&text, &size);
  {
    ImageStore store(folder.path() / "cache", 0, messages);
    const ImageSource source = image_source(
        "docker-archive:" + folder.write("image.tar", saved_image(kManifest)).string(), "/");
    const StoredImage image = store.provide(source, image_digest(source, hash_of));
    const std::string name = "docker-archive:" + folder.path().string() + "/image.tar";
    CHECK(std::string(text, size) ==
          "unpacking " + name + "\nunpacked 3 B to " + image.folder.string() + "\n");
    store.remove(image);
  }
  std::fclose(messages);
  std::free(text);
}

TEST_CASE("a layer packed by zstd is refused with the command that repacks it", "[container]") {
  Store store;
  CHECK_THROWS_WITH(store.provide(test::tar({{"0/layer.tar", "\x28\xb5\x2f\xfd and more"},
                                             {"config.json", "{}"},
                                             {"manifest.json", kManifest}})),
                    Contains("compressed with zstd"));
}

TEST_CASE("an image of a registry is unpacked from the parts in its manifest", "[container]") {
  const std::string config = R"({"config": {"Env": ["A=1"]}})";
  const std::string layer = test::gzip(test::tar({{"etc/name", "box"}}));
  const auto entry = [](const std::string& content) {
    return R"({"digest": "sha256:)" + sha256_hex(content) + R"(", "size": )" +
           std::to_string(content.size());
  };
  const std::string manifest =
      R"({"config": )" + entry(config) + R"(}, "layers": [)" + entry(layer) + "}]}";
  const std::string other = R"({"config": {}, "layers": []})";
  const std::string here = R"(, "platform": {"os": "linux", "architecture": ")" +
                           std::string(
#ifdef __aarch64__
                               "arm64"
#else
                               "amd64"
#endif
                               ) +
                           "\"}}";
  const std::string list = R"({"manifests": [)" + entry(other) +
                           R"(, "platform": {"os": "linux", "architecture": "s390x"}}, )" +
                           entry(other) +
                           R"(, "platform": {"os": "windows", "architecture": "amd64"}}, )" +
                           entry(manifest) + here + ", " + entry(other) + here + "]}";
  const bool listed = GENERATE(true, false);
  const test::AnsweringServer server([&](const std::string& request) {
    for (const std::string* content : {&config, &layer, &manifest, &list}) {
      if (request.find(sha256_hex(*content)) == request.npos) continue;
      return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(content->size()) + "\r\n\r\n" +
             *content;
    }
    return std::string("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
  });
  const Digest digest = Digest::of_hex(sha256_hex(listed ? list : manifest));
  Store store;
  const ImageSource source =
      image_source("docker://" + server.host() + "/a/b@" + digest.text(), "/");
  const StoredImage image = store.store.provide(source, digest);
  CHECK(read_file(image.rootfs / "etc/name") == "box");
  CHECK(image.environment == std::map<std::string, std::string>{{"A", "1"}});
}

TEST_CASE("a tree's hash covers its files, links and names, in order", "[container]") {
  const test::TempDir folder;
  for (const char* name : {"b", "a", "folder/c"}) folder.write(name, name);
  fs::create_symlink("a", folder.path() / "link");
  fs::permissions(folder.path() / "a", fs::perms(0755));
  const TreeHash hash = hash_tree(folder.path(), hash_of);
  CHECK(hash.files == 4);
  CHECK(hash.bytes == 1 + 1 + 8);
  CHECK(hash.sha256 == sha256_hex(sha256_hex("a") + " xa\n" + sha256_hex("b") + "  b\n" +
                                  sha256_hex("folder/c") + "  folder/c\n-> a  link\n"));
  CHECK_THROWS_WITH(hash_tree(folder.path() / "none", hash_of), Contains("cannot read"));
}

TEST_CASE("an image in a folder keeps its digest when it gets mount points", "[container]") {
  const test::TempDir folder;
  folder.write("etc/version", "1");
  const Digest before = folder_digest(folder.path(), hash_of);
  CHECK(before.hex() == hash_tree(folder.path(), hash_of).sha256);
  add_mount_points(folder.path());
  CHECK(hash_tree(folder.path(), hash_of).files > 1);
  CHECK(folder_digest(folder.path(), hash_of) == before);
  CHECK(image_digest(image_source("dir:" + folder.path().string(), "/"), hash_of) == before);
  REQUIRE(::mkfifo((folder.path() / "tmp/pipe").c_str(), 0600) == 0);  // another /tmp is mounted
  CHECK(folder_digest(folder.path(), hash_of) == before);
  REQUIRE(::mkfifo((folder.path() / "etc/pipe").c_str(), 0600) == 0);
  CHECK(folder_digest(folder.path(), hash_of) != before);
  fs::remove(folder.path() / "etc/pipe");
  folder.write("etc/empty", "");
  CHECK(folder_digest(folder.path(), hash_of) != before);
  fs::remove(folder.path() / "etc/empty");
  fs::remove(folder.path() / "etc/mtab");
  fs::create_symlink("/etc/other", folder.path() / "etc/mtab");
  CHECK(folder_digest(folder.path(), hash_of) != before);
  fs::remove(folder.path() / "etc/mtab");
  folder.write("etc/hosts", "127.0.0.1 other");
  CHECK(folder_digest(folder.path(), hash_of) != before);
}

TEST_CASE("an image in a folder has its empty folders, but no mount points", "[container]") {
  const test::TempDir folder;
  folder.write("etc/version", "1");
  const auto digest = [&] { return folder_digest(folder.path(), hash_of); };
  const Digest before = digest();
  make_mount_point(folder.path(), "/home/me/project", MountPoint::Folder);
  CHECK(digest() == before);
  make_directories(folder.path() / "data");
  const Digest empty = digest();
  CHECK(empty != before);
  make_mount_point(folder.path(), "/data/project", MountPoint::Folder);
  CHECK(digest() == empty);
  make_directories(folder.path() / "data/x");
  CHECK(digest() != empty);
  fs::remove(folder.path() / "data/x");
  make_directories(folder.path() / "home/you");
  CHECK(digest() != empty);
}

TEST_CASE("a path in an image has the meaning that it has inside", "[container]") {
  const test::TempDir folder;
  const fs::path& root = folder.path();
  make_directories(root / "real/deep");
  fs::create_symlink("/real", root / "absolute");
  fs::create_symlink("../real", root / "real/relative");
  fs::create_symlink("loop", root / "loop");
  CHECK(resolve_in(root, "/absolute/deep") == root / "real/deep");
  CHECK(resolve_in(root, "/real/relative/deep") == root / "real/deep");
  CHECK(resolve_in(root, "/../../etc") == root / "etc");
  CHECK(resolve_in(root, "/real/./deep/../x") == root / "real/x");
  CHECK(resolve_in(root, "/absolute") == root / "absolute");  // its own link is not followed
  CHECK_THROWS_WITH(resolve_in(root, "/loop/x"), Contains("too many links"));
  for (int i = 0; i <= 41; ++i) {
    fs::create_symlink(i == 0 ? "real" : "link-" + std::to_string(i - 1),
                       root / ("link-" + std::to_string(i)));
  }
  CHECK(resolve_in(root, "/link-39/x") == root / "real/x");
  CHECK_THROWS_WITH(resolve_in(root, "/link-40/x"), Contains("too many links"));
}

TEST_CASE("a mount point is made in a read-only folder, which stays read-only", "[container]") {
  const test::TempDir folder;
  make_directories(folder.path() / "etc");
  fs::permissions(folder.path() / "etc", fs::perms(0555));
  make_mount_point(folder.path(), "/etc/a/b", MountPoint::Folder);
  make_mount_point(folder.path(), "/etc/file", MountPoint::File);
  CHECK((fs::status(folder.path() / "etc").permissions() & fs::perms::all) == fs::perms(0555));
  CHECK((fs::status(folder.path() / "etc/a/b").permissions() & fs::perms(0700)) == fs::perms(0700));
  CHECK(fs::is_regular_file(folder.path() / "etc/file"));
  CHECK_THROWS_WITH(make_mount_point(folder.path(), "/etc/file/x", MountPoint::File),
                    Catch::StartsWith("the image has no /etc/file/x to bind that to"));
  fs::permissions(folder.path() / "etc", fs::perms(0755));
}

}  // namespace dlflow
