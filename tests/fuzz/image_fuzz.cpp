#include "base/error.h"
#include "base/file.h"
#include "base/remove_tree.h"
#include "engine/container/image_contents.h"
#include "engine/container/layer.h"
#include "engine/container/tree.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/repair_tar.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/steps/stage/archives.h"

using namespace dlflow;
namespace fs = std::filesystem;

namespace {

/// A folder that holds a root file system, and files beside it that no layer may touch.
class Site {
 public:
  Site() {
    folder_.write("beside/file", "kept");
    make_directories(root());
  }
  ~Site() { remove_tree(root()); }

  fs::path root() const { return folder_.path() / "root"; }

  fs::path packed(const std::string& archive) const { return folder_.write("packed", archive); }

  void check_what_is_beside() const {
    DLFLOW_CHECK(read_file(folder_.path() / "beside/file") == "kept");
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path() / "beside")) {
      DLFLOW_CHECK(entry.path().filename() == "file");
    }
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename();
      DLFLOW_CHECK(name == "beside" || name == "root" || name == "packed");
    }
  }

 private:
  test::TempDir folder_;
};

void put_on(const Site& site, const std::string& layer) {
  try {
    apply_layer(*open_file(site.packed(layer)), site.root(), 1000);
    add_mount_points(site.root());
  } catch (const Error&) {
    // Refused; earlier entries are there.
  }
  site.check_what_is_beside();
}

void read_json(const std::string& text) {
  if (is_image_index(text)) {
    blob_path("/layout", manifest_for_this_machine(text, "the index"));
  } else {
    for (const Blob& blob : blobs_of(text)) blob_path("/layout", blob.digest);
  }
}

void read_image(char kind, std::string input) {
  if (kind == 'j') return read_json(input);
  test::repair_tar(input);
  const Site site;
  if (kind == 'l') return put_on(site, input);
  const ImageSource source{kind == 'd' ? ImageSource::Kind::DockerArchive : ImageSource::Kind::Oci,
                           site.packed(input),
                           "",
                           {}};
  image_contents(source, site.root());
}

}  // namespace

/// The first byte gives the kind of the rest: 'l' a layer, 'd' output of `docker save`, 'o' an OCI
/// layout in one file, 'j' an image index or a manifest.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  try {
    read_image(char(data[0]), std::string(data + 1, data + size));
  } catch (const Error&) {
    // Most inputs are refused.
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string layer = test::tar({
      {.name = "etc/", .type = '5', .mode = 0755},
      {.name = "etc/name", .content = "box"},
      {.name = "etc/.wh..wh..opq"},
      {.name = "up", .type = '2', .link_target = "../beside"},
      {.name = "up/file", .content = "changed"},
      {.name = "hard", .type = '1', .link_target = "up/file"},
      {.name = ".wh.up"},
      {.name = "a/../../beside/.wh.file"},
      {.name = "dev/null", .type = '3'},
  });
  const std::string digest = "sha256:" + std::string(64, 'a');
  const std::string manifest =
      R"({"config": {"digest": ")" + digest + R"("}, "layers": [{"digest": ")" + digest + R"("}]})";
  const std::string index = R"({"manifests": [{"digest": ")" + digest +
                            R"(", "platform": {"architecture": "amd64", "os": "linux"}}]})";
  const std::string docker =
      test::tar({{"0/layer.tar", layer},
                 {"config.json", R"({"config": {"Env": ["PATH=/bin", "EMPTY"]}})"},
                 {"manifest.json", R"([{"Config": "config.json", "Layers": ["0/layer.tar"]}])"}});
  const std::string oci = test::tar({{"blobs/sha256/" + digest.substr(7), manifest},
                                     {"index.json", index},
                                     {"oci-layout", "{}"}});
  return {"l" + layer, "d" + docker, "o" + oci, "j" + manifest, "j" + index};
}
