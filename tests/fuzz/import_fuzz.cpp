#include "base/error.h"
#include "runtime/data/sharded_dataset.h"
#include "runtime/import/npy.h"
#include "runtime/import/picture.h"
#include "tests/fuzz/fuzz.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace std::string_literals;

namespace {

/// Whatever is refused is refused as corrupt.
template <typename Read>
void expect_value_or_corrupt(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    DLFLOW_CHECK(error.code() == Errc::Corrupt);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string content(data, data + size);
  expect_value_or_corrupt([&] {
    const NpyArray array = parse_npy(shared_bytes(content), "input");
    DLFLOW_CHECK(array.values.view.size() < size);
  });
  expect_value_or_corrupt([&] {
    const Picture picture = parse_picture(content, "input");
    DLFLOW_CHECK(picture.values.size() == picture.shape.num_values());
  });
  expect_value_or_corrupt([&] { parse_shard_index(content, "train.shards.json"); });
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }\n";
  // A grey PNG of 1 x 1.
  const std::string png =
      "\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00"s
      "\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00\x3a\x7e\x9b\x55\x00\x00\x00"s
      "\x0a\x49\x44\x41\x54\x78\x9c\x63\x70\x04\x00\x00\x43\x00\x42\x2a\x6d\x8d"s
      "\x74\x00\x00\x00\x00\x49\x45\x4e\x44\xae\x42\x60\x82"s;
  return {"\x93NUMPY\x01\0"s + char(header.size()) + '\0' + header + "12345678", png,
          "P5 2 1 255 ab", "P6\n# size\n1 1\n255\nabc",
          format_shard_index({{"train-00000-of-00002.dlset", 7, std::string(64, 'a')},
                              {"train-00001-of-00002.dlset", 7, std::string(64, 'b')}})};
}
