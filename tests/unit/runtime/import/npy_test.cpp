#include "runtime/import/npy.h"

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
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

std::string npy_error(const std::string& content) {
  return test::error_of([&] { parse_npy(shared_bytes(content), "a.npy"); }, Errc::Corrupt);
}

struct Pair {
  test::TempDir folder;

  Dataset read(const std::string& images, const std::string& labels) const {
    return read_npy_pair(folder.write("images.npy", images), folder.write("labels.npy", labels));
  }
  std::string npy_error(const std::string& images, const std::string& labels) const {
    return test::error_of([&] { read(images, labels); });
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

TEST_CASE("unusable arrays are refused with what to do", "[npy]") {
  const Pair pair;
  const std::string images = npy("|u1", "(2, 1, 3)", "abcdef");
  CHECK_THAT(pair.npy_error(npy("<f8", "(2, 1, 1)", std::string(16, 'x')), kLabels),
             Catch::Contains("write images.astype('uint8')"));
  CHECK_THAT(pair.npy_error(npy("|u1", "(2, 5, 5, 3)", std::string(150, 'x')), kLabels),
             Catch::Contains("np.moveaxis(images, -1, 1)"));
  CHECK_THAT(pair.npy_error(npy("|u1", "(6,)", "abcdef"), kLabels),
             Catch::Contains("does not have the shape of images"));
  CHECK_THAT(pair.npy_error(images, npy("|u1", "(1,)", "a")),
             Catch::EndsWith("labels.npy: has 1 labels for 2 images"));
  CHECK_THAT(pair.npy_error(images, npy("|i1", "(2,)", "\x01\xff")),
             Catch::EndsWith("labels.npy: sample 1 has the label -1"));
  CHECK_THAT(pair.npy_error(images, npy("|b1", "(2,)", "\0\1"s)),
             Catch::Contains("labels of type |b1"));
  CHECK_THAT(pair.npy_error(images, npy("<f2", "(2, 1)", "1234")),
             Catch::Contains("write array.astype('float32')"));
  CHECK_THAT(pair.npy_error(images, npy("<f4", "(2, 0)", "")),
             Catch::Contains("has 0 targets a sample"));
  CHECK_THAT(pair.npy_error(images, npy("<f4", "(1, 2)", "12345678")),
             Catch::EndsWith("labels.npy: has 1 rows of targets for 2 images"));
  CHECK_THAT(pair.npy_error(images, npy("<f4", "()", "1234")), Catch::Contains("(N) or (N, T)"));
}

TEST_CASE("files that are not arrays are refused with the reason", "[npy]") {
  CHECK(npy_error("") == "a.npy: is not an .npy file");
  CHECK(npy_error("\x93NUMPY\x01\0\xff\xff{}"s) == "a.npy: ends within its header");
  CHECK_THAT(npy_error(npy("|u1", "(7,)", "abc")), Catch::Contains("has 3 bytes of values"));
  CHECK_THAT(npy_error(npy("|u1", "(x,)", "abc")), Catch::Contains("has no shape"));
  CHECK_THAT(npy_error(npy("|O", "(1,)", "abc")), Catch::Contains("array of Python objects"));
  CHECK_THAT(npy_error("\x93NUMPY\x01\0\x06\0{'a':}"s), Catch::Contains("has no 'descr'"));
  CHECK_THAT(npy_error(npy(">f4", "(1,)", "abcd")), Catch::Contains("big-endian"));
  CHECK_THAT(npy_error(npy("|u1", "(3, 1)", "abc", "True")), Catch::Contains("ascontiguousarray"));
  // 2^32 * 2^32 = 0 (mod 2^64)
  CHECK_THAT(npy_error(npy("|u1", "(4294967296, 4294967296)", "")), Catch::Contains("0 bytes"));
}

TEST_CASE("a header longer than 64 KiB is read, as in version 2 of the format", "[npy]") {
  const std::string first = npy("|u1", "(3,)", "abc");
  for (const size_t length : {size_t{200}, size_t{300}, size_t{0x2'03'40}}) {
    std::string header = first.substr(10, first.size() - 13);
    header.resize(length, ' ');
    std::string content = "\x93NUMPY\x02\0"s;
    for (int i = 0; i < 4; ++i) content += char(length >> 8 * i & 255);
    const NpyArray array = parse_npy(shared_bytes(content + header + "abc"), "a.npy");
    CHECK(array.shape == std::vector<uint64_t>{3});
    CHECK(array.values.view == "abc");
    CHECK(npy_error(content + header.substr(1)) == "a.npy: ends within its header");
  }
}

TEST_CASE("labels are integers of any size below 2^32 - 1", "[npy]") {
  const Pair pair;
  const std::string images = npy("|u1", "(2, 1, 1)", "ab");
  const auto labels = [&](const std::string& type, const std::string& values) {
    return pair.read(images, npy(type, "(2,)", values)).labels.copy();
  };
  const std::vector<uint32_t> expected = {1, 2};
  CHECK(labels("|u1", "\1\2") == expected);
  CHECK(labels("|i1", "\1\2") == expected);
  CHECK(labels("<u2", "\1\0\2\0"s) == expected);
  CHECK(labels("<i2", "\1\0\2\0"s) == expected);
  CHECK(labels("<u4", "\1\0\0\0\2\0\0\0"s) == expected);
  CHECK(labels("<i4", "\1\0\0\0\2\0\0\0"s) == expected);
  CHECK(labels("<u8", "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"s) == expected);
  CHECK(labels("<u4", "\1\0\0\0\xfe\xff\xff\xff"s).back() == 4294967294);
  CHECK_THAT(pair.npy_error(images, npy("<u4", "(2,)", "\1\0\0\0\xff\xff\xff\xff"s)),
             Catch::EndsWith("labels.npy: sample 1 has the label 4294967295"));
}

TEST_CASE("tokens are integers below the size of the vocabulary", "[npy]") {
  const test::TempDir folder;
  const auto read = [&](const std::string& content) {
    return read_npy_tokens(folder.write("tokens.npy", content), 260);
  };
  CHECK(read(npy("<i8", "(2,)", "\x03\1\0\0\0\0\0\0\1\0\0\0\0\0\0\0"s)) ==
        std::vector<uint32_t>{259, 1});
  CHECK(read(npy("|u1", "(3,)", "\0\1\xff"s)) == std::vector<uint32_t>{0, 1, 255});
  CHECK(read(npy("<u2", "(0,)", "")).empty());
  CHECK_THROWS_WITH(read(npy("<u2", "(2,)", "\1\0\x04\1"s)),
                    Catch::EndsWith("number 1 is the token 260, but the tokenizer has 260"));
  CHECK_THROWS_WITH(read(npy("|i1", "(1,)", "\xff")), Catch::Contains("is the token -1"));
  CHECK_THROWS_WITH(read(npy("<f4", "(1,)", "1234")), Catch::Contains("tokens of type <f4"));
  CHECK_THROWS_WITH(read(npy("|u1", "(1, 2)", "12")),
                    Catch::Contains("has the shape (1, 2), but tokens have (N)"));
}

TEST_CASE("tables of numbers of any type are read", "[npy]") {
  const Pair pair;
  const auto values = [&](const std::string& type, const std::string& bytes) {
    const Dataset dataset = pair.read(npy(type, "(2, 1)", bytes), kLabels);
    const auto& rows = std::get<PixelRows<float>>(dataset.pixels);
    return std::vector<float>{rows[0][0], rows[1][0]};
  };
  const std::vector<float> expected = {1, 2}, negative = {1, -1};
  CHECK(values("|b1", "\1\2") == expected);
  CHECK(values("|i1", "\1\xff") == negative);
  CHECK(values("<u2", "\1\0\2\0"s) == expected);
  CHECK(values("<u4", "\1\0\0\0\2\0\0\0"s) == expected);
  CHECK(values("<i4", "\1\0\0\0\xff\xff\xff\xff"s) == negative);
  CHECK(values("<u8", "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"s) == expected);
  CHECK(values("<i8", "\1\0\0\0\0\0\0\0"s + std::string(8, '\xff')) == std::vector<float>{1, -1});
}

TEST_CASE("channels may come last even if they are as many as pixels", "[npy]") {
  const Pair pair;
  const auto shape = [&](const std::string& sizes, size_t count) {
    return pair.npy_error(npy("|u1", sizes, std::string(count, 'x')), kLabels);
  };
  CHECK(shape("(2, 4, 1, 4)", 32).empty());
  CHECK_THAT(shape("(2, 5, 1, 4)", 40), Catch::Contains("seems to have its channels last"));
  CHECK(shape("(2, 5, 1, 5)", 50).empty());
  CHECK_THAT(shape("(2, 4294967296, 0)", 0), Catch::Contains("has images that are too large"));
}

TEST_CASE("tables, with targets of any numbers, become a data set", "[npy]") {
  const Pair pair;
  const auto bytes_of = [](const auto& values) {
    return std::string(reinterpret_cast<const char*>(values.data()),
                       values.size() * sizeof(values[0]));
  };
  const std::vector<double> rows = {0.5, -1, 2, 1e10, 0, 4};
  const std::vector<float> narrow(rows.begin(), rows.end()), targets = {1.5f, -2};
  const std::string table = npy("<f8", "(2, 3)", bytes_of(rows));
  CHECK(pair.read(table, npy("<f4", "(2,)", bytes_of(targets))) ==
        make_dataset({3, 1, 1}, narrow, targets, 1));
  CHECK(pair.read(table, npy("<f8", "(2, 3)", bytes_of(rows))) ==
        make_dataset({3, 1, 1}, narrow, narrow, 3));
  CHECK(pair.read(table, npy("|b1", "(2, 2)", "\0\1\1\1"s)) ==
        make_dataset({3, 1, 1}, narrow, {0, 1, 1, 1}, 2));
  CHECK(pair.read(npy("<i2", "(2, 1)", "\xff\xff\2\0"s), kLabels) ==
        make_dataset({1, 1, 1}, 5, std::vector<float>{-1, 2}, {1, 4}));
  CHECK(pair.read(npy("|u1", "(2, 1)", "ab"), kLabels) ==
        make_dataset({1, 1, 1}, 5, std::vector<uint8_t>{'a', 'b'}, {1, 4}));
}

TEST_CASE("an array is recognised by its first bytes, and needs a complete header", "[npy]") {
  const std::string content = npy("|u1", "(0,)", "");
  CHECK(npy_error(content).empty());
  for (size_t i = 0; i < 6; ++i) {
    std::string other = content;
    other[i] ^= 1;
    CHECK(npy_error(other) == "a.npy: is not an .npy file");
  }
  CHECK(npy_error(content.substr(0, content.size() - 1)) == "a.npy: ends within its header");
  CHECK(npy_error(content.substr(0, 12)) == "a.npy: ends within its header");
  CHECK(npy_error(content.substr(0, 11)) == "a.npy: is not an .npy file");
  CHECK(npy_error("\x93NUMPY\x01\0\0\0{}"s) == "a.npy: its header has no 'descr'");
}

TEST_CASE("a shape consists of whole numbers in parentheses", "[npy]") {
  const auto shape_of = [](const std::string& shape) {
    return parse_npy(shared_bytes(npy("|u1", shape, "abcdef")), "a.npy").shape;
  };
  CHECK(shape_of("( 6 , )") == std::vector<uint64_t>{6});
  CHECK(shape_of("(6)") == std::vector<uint64_t>{6});
  CHECK(shape_of("(1,2,3)") == std::vector<uint64_t>{1, 2, 3});
  CHECK(parse_npy(shared_bytes(npy("|u1", "()", "a")), "a.npy").shape.empty());
  for (const char* bad : {"(6", "6,)", "[6]", "(2 3,)", "(-6,)", "(6.0,)", "(6x,)", "(x6,)",
                          "(99999999999999999999,)"}) {
    INFO(bad);
    CHECK(npy_error(npy("|u1", bad, "abcdef")) == "a.npy: has no shape");
  }
}

TEST_CASE("values have one to eight bytes, according to their type", "[npy]") {
  for (int size = 0; size <= 9; ++size) {
    const std::string content =
        npy("|u" + std::to_string(size), "(2,)", std::string(size_t(size) * 2, 'x'));
    CHECK(npy_error(content).empty() == (size >= 1 && size <= 8));
  }
  CHECK_THAT(npy_error(npy("|u2", "(3,)", "12345")), Catch::Contains("has 5 bytes of values"));
  CHECK_THAT(npy_error(npy("|u2", "(3,)", "1234567")), Catch::Contains("has 7 bytes of values"));
  const std::string last = "{'fortran_order': False, 'shape': (1,), 'descr': '<f4'";
  const auto file = [](const std::string& header) {
    return "\x93NUMPY\x01\0"s + char(header.size()) + '\0' + header + "abcd";
  };
  CHECK(npy_error(file(last)).empty());
  CHECK_THAT(npy_error(file(last.substr(0, last.size() - 1))),
             Catch::Contains("its header names no type"));
}

TEST_CASE("an array of text, objects, records or long doubles is refused as such", "[npy]") {
  CHECK(npy_error(npy("<U12", "(2,)", std::string(96, 'x'))) ==
        "a.npy: is an array of text (<U12); for labels, write np.unique(array, "
        "return_inverse=True)[1]");
  CHECK_THAT(npy_error(npy("|S1", "(3,)", "abc")), Catch::Contains("array of text (|S1)"));
  CHECK_THAT(npy_error(npy("|V4", "(1,)", "abcd")), Catch::Contains("array of records (|V4)"));
  CHECK(npy_error(npy("<f16", "(1,)", std::string(16, 'x'))) ==
        "a.npy: has values of type <f16; write array.astype('float32')");
  std::string records = npy("<i4", "(1,)", "abcd");
  const std::string type = "'<i4'";
  records.replace(records.find(type), type.size(), "['']");
  CHECK(npy_error(records) ==
        "a.npy: is an array of records; save one field of it: np.save(FILE, array['NAME'])");
}

TEST_CASE("whole numbers that single precision rounds cause a note", "[npy]") {
  const std::vector<int64_t> numbers = {1, 16777216, -16777217, 16777219};
  const std::string bytes(reinterpret_cast<const char*>(numbers.data()), 32);
  const Pair pair;
  std::vector<std::string> notes;
  read_npy_pair(pair.folder.write("images.npy", npy("<i8", "(2, 2)", bytes)),
                pair.folder.write("labels.npy", kLabels), &notes);
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], Catch::EndsWith("images.npy: sample 1, value 0: -16777217 becomes -16777216 "
                                       "in single precision, as 2 of the array's whole numbers are "
                                       "rounded; subtract a constant, if this matters"));
}

TEST_CASE("floats are read at any alignment in the file", "[npy]") {
  const Pair pair;
  const std::vector<float> floats = {0.5f, -1, 2, 3};
  const std::string aligned =
      npy("<f4", "(2, 1, 2)", std::string(reinterpret_cast<const char*>(floats.data()), 16));
  const Dataset expected = make_dataset({1, 1, 2}, 5, floats, {1, 4});
  for (size_t shift = 0; shift <= 4; ++shift) {
    std::string content = aligned;
    content.insert(10, shift, ' ');
    content[8] = char(size_t(uint8_t(content[8])) + shift);
    CHECK(pair.read(content, kLabels) == expected);
  }
}

TEST_CASE("answers have one or two dimensions, and one row per image", "[npy]") {
  const Pair pair;
  const std::string images = npy("|u1", "(2, 1, 1)", "ab"), table = npy("|u1", "(2, 1)", "ab");
  CHECK_THAT(pair.npy_error(images, npy("|u1", "(2, 1, 1)", "ab")),
             Catch::Contains("nor of targets, (N) or (N, T), nor of masks"));
  CHECK_THAT(pair.npy_error(table, npy("|u1", "(3,)", "abc")),
             Catch::EndsWith("labels.npy: has 3 labels for 2 rows"));
  CHECK_THAT(pair.npy_error(table, npy("|u1", "(3, 1)", "abc")),
             Catch::EndsWith("labels.npy: has 3 rows of targets for 2 rows"));
  const std::string none = npy("|u1", "(0, 1, 1)", "");
  CHECK_THAT(pair.npy_error(none, npy("<f4", "(0, 4294967296)", "")),
             Catch::EndsWith("has 4294967296 targets a sample"));
  CHECK(pair.read(none, npy("<f4", "(0, 4294967295)", "")).num_targets == 4294967295);
  CHECK_THAT(pair.npy_error(npy("|u1", "(2, 1, 1, 1, 1)", "ab"), kLabels),
             Catch::Contains("does not have the shape of images"));
  CHECK_THAT(pair.npy_error(npy("|u1", "(2, 1, 4294967296, 0)", ""), kLabels),
             Catch::Contains("has images that are too large"));
  CHECK(pair.npy_error(npy("|u1", "(2, 4294967295, 0)", ""), kLabels).empty());
}
