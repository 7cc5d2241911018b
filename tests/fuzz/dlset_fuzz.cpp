#include "base/error.h"
#include "base/sha256.h"
#include "runtime/data/binary_dataset.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

std::string content_of(const Dataset& dataset) {
  const test::TempDir folder;
  write_binary_dataset(folder.path() / "seed.dlset", dataset);
  return read_file(folder.path() / "seed.dlset");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string content(data, data + size);
  // Makes the hash right again: otherwise hardly a change would get past it.
  if (size >= 104) content.replace(40, 64, sha256_hex(content.substr(0, 40) + content.substr(104)));
  try {
    const Dataset dataset = parse_binary_dataset(shared_bytes(content), "input");
    DLFLOW_CHECK(binary_dataset_bytes(source_of(dataset), 0, dataset.size()) == size);
  } catch (const Error& error) {
    DLFLOW_CHECK(error.code() == Errc::Corrupt);
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {content_of(make_dataset({1, 1, 2}, 4, std::vector<uint8_t>{1, 2, 3, 255}, {3, 0})),
          content_of(make_dataset({2, 1, 1}, 1, std::vector<float>{0.5f, -1}, {0})),
          content_of(make_dataset({1, 1, 2}, std::vector<uint8_t>{1, 2, 3, 4}, {0.5f, -2}, 1)),
          content_of({{1, 2, 3}, 0, {}, {}})};
}
