#include "engine/share/zip_reader.h"

#include "engine/share/zip_writer.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_dir.h"
#include "tests/support/zip_bytes.h"
#include "tests/unit/engine/share/bundles.h"

using namespace dlflow;
using test::bytes_of;
using test::Changes64;
using test::end_of;
using test::header;
using test::kElsewhere;
using test::kLine;
using test::kLocal;
using test::kPackedA;
using test::line;
using test::Packed;
using test::sizes64;
using test::TempDir;
using test::with_zip64;

namespace {

/// Returns ZipReader's refusal of an archive, or "" if it read every entry.
std::string refused_zip(const std::string& archive) {
  const TempDir folder;
  return test::error_of([&] {
    ZipReader zip(folder.write("b.zip", archive));
    for (const ZipEntry& entry : zip.entries()) zip.read_text(entry, 1 << 20);
  });
}

std::string zip_of(const std::vector<Packed>& entries) {
  const TempDir folder;
  return test::zip_of(folder.path(), entries);
}

const std::vector<Packed>& two() {
  static const std::vector<Packed> entries = {{"first", "one"}, {"second", "two", S_IFREG | 0755}};
  return entries;
}

/// Returns `archive` with other bytes `distance` after the `occurrence`-th place (from 0) of
/// `mark`.
std::string changed(std::string archive, const std::string& mark, int occurrence, size_t distance,
                    const std::string& bytes) {
  size_t at = archive.find(mark);
  for (; occurrence > 0; --occurrence) at = archive.find(mark, at + 1);
  return archive.replace(at + distance, bytes.size(), bytes);
}

}  // namespace

TEST_CASE("entries are read in any order, with their sizes and modes", "[zip]") {
  const TempDir folder;
  ZipReader zip(folder.write("b.zip", zip_of(two())));
  REQUIRE(zip.entries().size() == 2);
  const ZipEntry& first = zip.entries()[0];
  const ZipEntry& second = zip.entries()[1];
  CHECK(first.name == "first");
  CHECK(first.bytes == 3);
  CHECK(first.mode == (S_IFREG | 0644));
  CHECK(second.name == "second");
  CHECK(second.mode == (S_IFREG | 0755));
  CHECK(zip.read_text(second, 3) == "two");
  CHECK(zip.read_text(first, 3) == "one");
  CHECK_THROWS_WITH(zip.read_text(first, 2), "the bundle's entry 'first' is too large");
}

TEST_CASE("an archive with the end record of a large one is read", "[zip]") {
  CHECK(refused_zip(with_zip64(zip_of(two()))).empty());
}

TEST_CASE("each number in the end of a large archive is checked", "[zip]") {
  for (const Changes64& changes :
       {Changes64{.mark = "PK\6\5"}, Changes64{.directory_bytes = 1},
        Changes64{.directory_place = 1}, Changes64{.record_place = 1},
        Changes64{.directory_bytes = -1, .directory_place = 1},
        Changes64{.directory_bytes = 1'000'000, .directory_place = -1'000'000}}) {
    CHECK_THAT(refused_zip(with_zip64(zip_of(two()), changes)), !Catch::Equals(""));
  }
  // The record's own length, which is not needed to find the directory.
  CHECK_THAT(refused_zip(changed(with_zip64(zip_of(two())), "PK\6\6", 0, 4, "\x2d")),
             Catch::Contains("there is data before or after its directory"));
}

TEST_CASE("an entry that reaches into the directory is refused", "[zip]") {
  std::string archive = zip_of(two());
  archive = changed(archive, kLocal, 1, 18, bytes_of(1000, 4));
  archive = changed(archive, kLine, 1, 20, bytes_of(1000, 4));
  CHECK_THAT(refused_zip(archive), Catch::Contains("entry 'second' is too long"));
}

TEST_CASE("sizes of large entries are read", "[zip]") {
  const std::string sizes = sizes64(1, 3);
  const std::string entry =
      kLocal + header(kElsewhere, kElsewhere, sizes.size()) + "a" + sizes + kPackedA;
  const std::string directory = line("a", kElsewhere, kElsewhere, sizes, 0);
  const std::string archive = entry + directory + end_of(1, directory.size(), entry.size());
  CHECK(refused_zip(archive) == "");
  CHECK(refused_zip(with_zip64(archive, {.entries = 1})).empty());
}

TEST_CASE("an entry whose end wraps around into an earlier entry is refused", "[zip][attack]") {
  // The second entry lies in the first one's extra field. The first has a length of 2^64 minus some
  // bytes, so that it seems to end at the beginning of the second.
  const std::string inner = kLocal + header(3, 1, 0) + "b" + kPackedA;
  const uint64_t inner_place = 30 + 1 + 20 + 4;
  const std::string sizes = sizes64(1, inner_place - (inner_place + inner.size()));
  const std::string extra = sizes + bytes_of(0x7777, 2) + bytes_of(inner.size(), 2) + inner;
  const std::string entries = kLocal + header(kElsewhere, kElsewhere, extra.size()) + "a" + extra;
  const std::string directory =
      line("a", kElsewhere, kElsewhere, sizes, 0) + line("b", 3, 1, "", inner_place);
  const std::string archive = entries + directory + end_of(2, directory.size(), entries.size());
  CHECK_THAT(refused_zip(archive), Catch::Contains("entry 'a' is not at its expected position"));
}

TEST_CASE("sizes up to the maximum do not wrap around", "[zip][attack]") {
  for (const uint64_t packed : {uint64_t{4}, uint64_t{1} << 40, UINT64_MAX - 53, UINT64_MAX - 54}) {
    const std::string sizes = sizes64(1, packed);
    const std::string entry =
        kLocal + header(kElsewhere, kElsewhere, sizes.size()) + "a" + sizes + kPackedA;
    const std::string directory = line("a", kElsewhere, kElsewhere, sizes, 0);
    CHECK_THAT(refused_zip(entry + directory + end_of(1, directory.size(), entry.size())),
               Catch::Contains("entry 'a' is too long"));
  }
}

TEST_CASE("entries are made by Unix, or by minizip when they are large", "[zip]") {
  const auto made_by = [](uint64_t maker) {
    const std::string entry = kLocal + header(3, 1, 0) + "a" + kPackedA;
    std::string directory = line("a", 3, 1, "", 0);
    directory.replace(4, 2, bytes_of(maker, 2));
    return refused_zip(entry + directory + end_of(1, directory.size(), entry.size()));
  };
  for (const uint64_t maker : {3U << 8, 3U << 8 | 30, 45U}) CHECK(made_by(maker).empty());
  for (const uint64_t maker : {0U, 44U, 46U, 2U << 8, 4U << 8, 10U << 8 | 45}) {
    CHECK_THAT(made_by(maker), Catch::EndsWith("is not a plain file"));
  }
}

TEST_CASE("compressed content ends with its entry", "[zip]") {
  const auto of = [](const std::string& packed) {
    const std::string entry = kLocal + header(packed.size(), 1, 0) + "a" + packed;
    const std::string directory = line("a", packed.size(), 1, "", 0);
    return refused_zip(entry + directory + end_of(1, directory.size(), entry.size()));
  };
  CHECK(of(kPackedA).empty());
  CHECK_THAT(of(kPackedA.substr(0, 2)), Catch::EndsWith("entry 'a' ends too early"));
  CHECK_THAT(of(""), Catch::EndsWith("entry 'a' ends too early"));
  CHECK_THAT(of(kPackedA + "x"), Catch::EndsWith("entry 'a' cannot be unpacked"));
  CHECK_THAT(of("\x07xx"), Catch::EndsWith("entry 'a' cannot be unpacked"));
}

TEST_CASE("a ZIP64 field holds only the values that need it", "[zip]") {
  const auto refused = [](const std::string& local, const std::string& listed, uint64_t packed) {
    const std::string entry = kLocal + header(packed, kElsewhere, local.size()) + "a" + local;
    const std::string directory = line("a", packed, kElsewhere, listed, 0);
    return refused_zip(entry + kPackedA + directory +
                       end_of(1, directory.size(), entry.size() + kPackedA.size()));
  };
  const std::string one = bytes_of(1, 2) + bytes_of(8, 2) + bytes_of(1, 8);
  const std::string two_sizes = sizes64(1, 3);
  CHECK(refused(one, one, 3).empty());
  CHECK(refused(two_sizes, two_sizes, kElsewhere).empty());
  const std::string misplaced = "entry 'a' is not at its expected position";
  for (const std::string& wrong :
       {std::string(), one.substr(0, 4), one.substr(0, 11), one + "x", one + one, two_sizes,
        bytes_of(2, 2) + one.substr(2), bytes_of(1, 2) + bytes_of(9, 2) + bytes_of(1, 8),
        bytes_of(1, 2) + bytes_of(8, 2) + bytes_of(2, 8)}) {
    CHECK_THAT(refused(wrong, one, 3), Catch::Contains(misplaced));
    CHECK_THAT(refused(one, wrong, 3),
               Catch::Contains(misplaced) || Catch::EndsWith("entry 'a' has no size"));
  }
}

TEST_CASE("space reserved for large sizes stays empty", "[zip]") {
  const auto with = [](const std::string& extra) {
    const std::string entry = kLocal + header(3, 1, extra.size()) + "a" + extra + kPackedA;
    const std::string directory = line("a", 3, 1, "", 0);
    return refused_zip(entry + directory + end_of(1, directory.size(), entry.size()));
  };
  CHECK(with(sizes64(0, 0)).empty());
  CHECK_FALSE(with(sizes64(1, 0)).empty());
  CHECK_FALSE(with(sizes64(0, 0) + std::string(1, '\0')).empty());
}

TEST_CASE("a local header that differs from the directory is refused", "[zip]") {
  const std::string good = zip_of(two());
  REQUIRE(refused_zip(good).empty());
  const std::string place = "is not at its expected position";
  CHECK_THAT(refused_zip(changed(good, kLocal, 1, 6, bytes_of(2, 2))), Catch::Contains(place));
  CHECK_THAT(refused_zip(changed(good, kLocal, 1, 30, "S")), Catch::Contains(place));
  for (const size_t field : {3U, 8U, 10U, 12U, 14U, 18U, 22U, 26U, 28U}) {  // all fields of both
    CHECK_FALSE(refused_zip(changed(good, kLocal, 1, field, "\7")).empty());
  }
  for (const size_t field : {32U, 34U, 42U}) {  // a comment, another disk, another place
    CHECK_THAT(refused_zip(changed(good, kLine, 1, field, "\1")), Catch::Contains(place));
  }
  const std::string later = changed(good, kLocal, 1, 6, bytes_of(8, 2));
  CHECK_THAT(refused_zip(changed(later, kLine, 1, 8, bytes_of(8, 2))), Catch::Contains(place));
}

TEST_CASE("the directory and its end agree on the number of entries", "[zip]") {
  const std::string good = zip_of(two());
  for (const size_t field : {4U, 6U, 8U, 10U, 12U, 16U, 20U}) {
    CHECK_FALSE(refused_zip(changed(good, "PK\5\6", 0, field, "\3")).empty());
  }
  const auto count = [&](uint64_t entries) {
    return refused_zip(changed(good, "PK\5\6", 0, 8, bytes_of(entries, 2) + bytes_of(entries, 2)));
  };
  for (const uint64_t entries : {0U, 1U, 3U, 65'534U, 65'535U}) {
    CHECK_THAT(count(entries), Catch::Contains("a different number of entries"));
  }
  CHECK_THAT(refused_zip(end_of(0, 0, 0)), Catch::EndsWith("it is empty"));
}

TEST_CASE("an archive with more files than a bundle has is refused", "[zip][attack]") {
  std::string entries;
  std::string directory;
  for (int i = 10'000; i < 10'000 + 65'535; ++i) {
    const std::string name = std::to_string(i);
    std::string fields = header(3, 1, 0);
    fields.replace(22, 2, bytes_of(name.size(), 2));
    std::string each = line(name, 3, 1, "", entries.size());
    each.replace(28, 2, bytes_of(name.size(), 2));
    directory += each;
    entries += kLocal + fields + name + kPackedA;
  }
  CHECK_THAT(refused_zip(entries + directory + end_of(65'535, directory.size(), entries.size())),
             Catch::EndsWith("it has too many files"));
}

TEST_CASE("content that differs from the directory in length or checksum is refused", "[zip]") {
  const std::string good = zip_of(two());
  const auto both = [&](size_t distance, const std::string& bytes) {
    return changed(changed(good, kLocal, 1, distance, bytes), kLine, 1, distance + 2, bytes);
  };
  CHECK_THAT(refused_zip(both(22, bytes_of(2, 4))), !Catch::Equals(""));
  CHECK_THAT(refused_zip(both(22, bytes_of(4, 4))), Catch::Contains("ends too early"));
  CHECK_THAT(refused_zip(both(14, bytes_of(5, 4))), Catch::Contains("checksum"));
}

TEST_CASE("a refused name cannot control a terminal", "[zip][attack]") {
  CHECK(refused_zip(zip_of({{"\x1b[1m~\x7f\xff \x1f", "x"}})) ==
        "the bundle's entry '\\u001b[1m~\\u007f\\xff \\u001f' has a name that leads elsewhere");
  const std::string directory =
      line("\x1b", kElsewhere, kElsewhere, sizes64(1, 3).substr(0, 11), 0);
  CHECK_THAT(refused_zip(directory + end_of(1, directory.size(), 0)),
             Catch::EndsWith("entry '\\u001b' has no size"));
}

TEST_CASE("safe paths are relative, plain UTF-8, and within the limits of file systems", "[zip]") {
  CHECK(path_is_safe("a/b c/..d/.e/\xc3\xa4~"));
  CHECK(path_is_safe(std::string(255, 'x')));
  CHECK_FALSE(path_is_safe(std::string(256, 'x')));
  std::string deep(3072, 'x');
  for (size_t at = 200; at < deep.size(); at += 200) deep[at] = '/';
  CHECK(path_is_safe(deep));
  CHECK_FALSE(path_is_safe(deep + "x"));
  for (const char* path :
       {"", "/a", "a/", "a//b", ".", "..", "a/./b", "a/../b", "a\\b", "a\x1f", "a\x7f", "\xff"}) {
    CHECK_FALSE(path_is_safe(path));
  }
  CHECK(path_is_safe("a b"));
}

TEST_CASE("archives are the same bytes for the same content", "[zip]") {
  const TempDir folder;
  const std::string content(700'000, 'x');
  ZipWriter zip(folder.path() / "b.zip");
  CHECK(zip.add("a", content) == sha256_hex(content));
  const auto source = open_file(folder.write("source", content));
  CHECK(zip.add("b", true, *source, content.size()) == sha256_hex(content));
  zip.close();
  const std::string bytes = read_file(folder.path() / "b.zip");
  CHECK(sha256_hex(bytes) == "e421885e9a65c87df730c8c23a2e6e5ff4707ed049f6b2df6445ed0901ac8f39");
  ZipReader reader(folder.path() / "b.zip");
  CHECK(reader.read_text(reader.entries().at(1), content.size()) == content);
}

TEST_CASE("a bundle must be a regular file", "[zip]") {
  const TempDir folder;
  CHECK_THROWS_WITH(ZipReader(folder.path() / "none"), Catch::StartsWith("cannot open "));
  CHECK_THROWS_WITH(ZipReader(folder.path()), Catch::EndsWith(" is no file"));
  CHECK_THROWS_WITH(ZipReader(folder.write("short", std::string(21, ' '))),
                    Catch::EndsWith("its end is missing"));
  CHECK_THROWS_WITH(ZipReader(folder.write("empty", "PK\5\6" + std::string(18, '\0'))),
                    Catch::Contains("damaged"));
}
