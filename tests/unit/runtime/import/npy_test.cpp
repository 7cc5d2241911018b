#include "runtime/import/npy.h"

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace std::string_literals;

namespace {

/// A file as numpy.save writes it.
std::string npy(const std::string& type, const std::string& shape, const std::string& values,
                const std::string& order = "False") {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  header.resize((10 + header.size() + 64) / 64 * 64 - 11, ' ');
  header += '\n';
  return "\x93NUMPY\x01\0"s + char(header.size() & 255) + char(header.size() >> 8) + header +
         values;
}

std::string error_of(const std::string& content) {
  try {
    parse_npy(shared_bytes(content), "a.npy");
  } catch (const Error& error) {
    CHECK(error.code() == Errc::Corrupt);
    return error.what();
  }
  return "";
}

struct Pair {
  test::TempDir folder;

  Dataset read(const std::string& images, const std::string& labels) const {
    return read_npy_pair(folder.write("images.npy", images), folder.write("labels.npy", labels));
  }
  std::string error_of(const std::string& images, const std::string& labels) const {
    try {
      read(images, labels);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

const std::string kLabels = npy("|u1", "(2,)", "\x01\x04");

}  // namespace

TEST_CASE("images and labels of NumPy become a data set", "[npy]") {
  const Pair pair;
  CHECK(pair.read(npy("|u1", "(2, 1, 3)", "abcdef"), kLabels) ==
        make_dataset({1, 1, 3}, 5, std::vector<uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'}, {1, 4}));
  const std::vector<float> floats = {0.5f, -1, 2, 3};
  const std::string bytes(reinterpret_cast<const char*>(floats.data()), 16);
  CHECK(pair.read(npy("<f4", "(2, 2, 1, 1)", bytes),
                  npy("<i8", "(2,)", "\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"s)) ==
        make_dataset({2, 1, 1}, 2, floats, {1, 0}));
}

TEST_CASE("arrays that cannot be used are refused with what to do", "[npy]") {
  const Pair pair;
  const std::string images = npy("|u1", "(2, 1, 3)", "abcdef");
  CHECK_THAT(pair.error_of(npy("<f8", "(2, 1, 1)", std::string(16, 'x')), kLabels),
             Catch::Contains("write images.astype('uint8')"));
  CHECK_THAT(pair.error_of(npy("|u1", "(2, 5, 5, 3)", std::string(150, 'x')), kLabels),
             Catch::Contains("np.moveaxis(images, -1, 1)"));
  CHECK_THAT(pair.error_of(npy("|u1", "(2, 3)", "abcdef"), kLabels),
             Catch::Contains("has no shape of images"));
  CHECK_THAT(pair.error_of(images, npy("|u1", "(1,)", "a")),
             Catch::EndsWith("labels.npy: has 1 labels for 2 images"));
  CHECK_THAT(pair.error_of(images, npy("|i1", "(2,)", "\x01\xff")),
             Catch::EndsWith("labels.npy: sample 1 has the label -1"));
  CHECK_THAT(pair.error_of(images, npy("<f4", "(2,)", "12345678")),
             Catch::Contains("labels of type <f4"));
}

TEST_CASE("files that are no arrays are refused with the reason", "[npy]") {
  CHECK(error_of("") == "a.npy: is not an .npy file");
  CHECK(error_of("\x93NUMPY\x01\0\xff\xff{}"s) == "a.npy: ends within its header");
  CHECK_THAT(error_of(npy("|u1", "(7,)", "abc")), Catch::Contains("has 3 bytes of values"));
  CHECK_THAT(error_of(npy("|u1", "(x,)", "abc")), Catch::Contains("has no shape"));
  CHECK_THAT(error_of(npy("|O", "(1,)", "abc")), Catch::Contains("bytes of values"));
  CHECK_THAT(error_of(npy(">f4", "(1,)", "abcd")), Catch::Contains("big-endian"));
  CHECK_THAT(error_of(npy("|u1", "(3, 1)", "abc", "True")), Catch::Contains("ascontiguousarray"));
  // 2^32 * 2^32 = 0 (mod 2^64)
  CHECK_THAT(error_of(npy("|u1", "(4294967296, 4294967296)", "")), Catch::Contains("0 bytes"));
}
