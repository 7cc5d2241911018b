#include "base/archive/byte_source.h"
#include "base/archive/tar.h"
#include "base/archive/zip.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "steps/stage/unpacking.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/repair_tar.h"
#include "tests/support/temp_dir.h"
#include "tests/support/zip_archive.h"
#include "tests/unit/steps/stage/archives.h"

using namespace dlflow;
using namespace dlflow::steps;
namespace fs = std::filesystem;

namespace {

/// Checks the paths of entries, and properties of any archive that was not refused.
void check_names(const Listing& listing) {
  for (const auto& [name, file] : listing) {
    DLFLOW_CHECK(!name.empty() && name.front() != '/' && name.back() != '/');
    for (const std::string& part : split(name, '/')) {
      DLFLOW_CHECK(!part.empty() && part != "." && part != "..");
    }
    const fs::path place = fs::path("/top") / name;
    const fs::path target = (place.parent_path() / file.link_target).lexically_normal();
    DLFLOW_CHECK(target.string().starts_with("/top"));
  }
}

void unpack(char kind, std::string archive, const fs::path& folder) {
  size_t num_files = 0;
  Unpacking unpacking([&] { return folder / std::to_string(num_files++); }, archive.size(),
                      {.max_bytes = 1 << 20, .max_entries = 100});
  if (kind == 't') test::repair_tar(archive);
  const fs::path packed = folder / "packed";
  write_file_atomic(packed, archive);
  if (kind == 'z') {
    read_zip(packed, unpacking);
  } else {
    const auto source = kind == 'g' ? open_gzip(packed) : open_file(packed);
    read_tar(*source, unpacking, 1000);
  }
  check_names(unpacking.finish());
}

}  // namespace

/// The first byte gives the kind of the rest: 't' tar, 'g' tar in gzip, 'z' zip.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const test::TempDir folder;
  try {
    unpack(char(data[0]), std::string(data + 1, data + size), folder.path());
  } catch (const Error&) {
    // Most inputs are refused.
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string tar = test::tar({
      {.name = "./", .type = '5'},
      {.name = "a/b", .content = std::string(600, 'b')},
      {.name = "link", .type = '2', .link_target = "a/b"},
      {.name = "a/hard", .type = '1', .link_target = "a/b"},
      {.name = "@", .content = std::string(120, 'n') + '\0', .type = 'L'},
      {.name = "short"},
      {.name = "pax", .content = "18 path=x/y/z/abc\n12 size=000\n", .type = 'x'},
      {.name = "also short", .mode = 0755, .prefix = "deep"},
  });
  const test::TempDir folder;
  const auto zip = folder.path() / "a.zip";
  test::write_zip(zip, {{"d/", "", S_IFDIR | 0755},
                        {"d/f", std::string(300, 'f')},
                        {"link", "d/f", S_IFLNK | 0777}});
  return {"t" + tar, "g" + test::gzip(tar), "z" + read_file(zip)};
}
