#include "base/archive/zip.h"

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/support/zip_bytes.h"

using namespace dlflow;
using Catch::Contains;
using test::bytes_of;
using test::end_of;
using test::header;
using test::kElsewhere;
using test::kLocal;
using test::kPackedA;
using test::line;
using test::with_zip64;

namespace {

/// Returns the names and contents of an archive, as "a=a ", or the reason for its refusal.
std::string unpacked(const std::string& archive) {
  const test::TempDir folder;
  std::string text;
  try {
    const ZipArchive zip(folder.write("packed", archive), "damaged: ");
    zip.each_entry([&](const ZipEntry& entry) {
      text += entry.name + "=";
      zip.read(entry, [&](std::string_view bytes) { text += bytes; });
      text += " ";
    });
    return text;
  } catch (const Error& error) {
    return error.what();
  }
}

/// An archive of entries "a" and "b", both of content "a".
struct Two {
  std::string first = kLocal + header(3, 1, 0) + "a" + kPackedA;
  std::string second = kLocal + header(3, 1, 0) + "b" + kPackedA;
  std::string first_line = line("a", 3, 1, "", 0);
  std::string second_line = line("b", 3, 1, "", 34);
  uint64_t count = 2;

  std::string entries() const { return first + second; }
  std::string directory() const { return first_line + second_line; }
  std::string text() const {
    return entries() + directory() + end_of(count, directory().size(), entries().size());
  }
};

}  // namespace

TEST_CASE("an archive is found behind other bytes and before a comment", "[zip]") {
  const std::string good = Two().text();
  CHECK(unpacked(good) == "a=a b=a ");
  CHECK(unpacked("#!/bin/sh\n" + good) == "a=a b=a ");
  std::string commented = good + "PK\5\6 is how it ends";
  commented.replace(good.size() - 2, 2, bytes_of(commented.size() - good.size(), 2));
  CHECK(unpacked(commented) == "a=a b=a ");
  CHECK(unpacked(end_of(0, 0, 0)).empty());
}

TEST_CASE("sizes and offsets of more than 32 bits are read", "[zip]") {
  Two large;
  large.second_line = line("b", kElsewhere, kElsewhere, test::sizes64(1, 3), 34);
  CHECK(unpacked(large.text()) == "a=a b=a ");
  const std::string place = bytes_of(1, 2) + bytes_of(8, 2) + bytes_of(34, 8);
  large.second_line = line("b", 3, 1, place, kElsewhere);
  CHECK(unpacked(large.text()) == "a=a b=a ");
  const std::string other = bytes_of(0x5455, 2) + bytes_of(1, 2) + "x";
  large.second_line = line("b", 3, 1, other + place, kElsewhere);
  CHECK(unpacked(large.text()) == "a=a b=a ");
  CHECK(unpacked(with_zip64(large.text())) == "a=a b=a ");
  large.second_line = line("b", 3, 1, place.substr(0, 11), kElsewhere);
  CHECK_THAT(unpacked(large.text()), Contains("entry 'b' has no size"));
  large.second_line = line("b", kElsewhere, 1, "", 34);
  CHECK_THAT(unpacked(large.text()), Contains("damaged"));
}

TEST_CASE("the end of a large archive leads to its directory", "[zip]") {
  const std::string good = Two().text();
  CHECK_THAT(unpacked(with_zip64(good, {.mark = "PK\6\5"})), Contains("its end is missing"));
  CHECK_THAT(unpacked(with_zip64(good, {.record_place = 1})), Contains("its end is missing"));
  CHECK_THAT(unpacked(with_zip64(good, {.directory_place = 1'000})),
             Contains("it has no directory at its end"));
  CHECK_THAT(unpacked(with_zip64(good, {.directory_bytes = 1'000})),
             Contains("it has no directory at its end"));
  CHECK_THAT(unpacked(with_zip64(good, {.directory_bytes = -1})), Contains("damaged"));
  CHECK_THAT(unpacked(with_zip64(good, {.entries = 3})), Contains("a different number of entries"));
}

TEST_CASE("an entry's content has the place, length and checksum that its line gives", "[zip]") {
  const auto of_line = [](uint64_t packed, uint64_t bytes, uint64_t place) {
    Two two;
    two.second_line = line("b", packed, bytes, "", place);
    return unpacked(two.text());
  };
  REQUIRE(of_line(3, 1, 34) == "a=a b=a ");
  CHECK_THAT(of_line(3, 1, 33), Contains("entry 'b' is not at its expected position"));
  CHECK_THAT(of_line(3, 1, 0), Contains("entry 'b' is not at its expected position"));
  CHECK_THAT(of_line(3, 1, 1'000), Contains("it is truncated"));
  CHECK_THAT(of_line(3, 0, 34), Contains("entry 'b' is longer than it declares"));
  CHECK_THAT(of_line(3, 2, 34), Contains("entry 'b' ends too early"));
  CHECK_THAT(of_line(2, 1, 34), Contains("entry 'b' ends too early"));
  CHECK_THAT(of_line(0, 1, 34), Contains("entry 'b' ends too early"));
  CHECK_THAT(of_line(4, 1, 34), Contains("entry 'b' cannot be unpacked"));
  CHECK_THAT(of_line(100'000, 1, 34), Contains("damaged"));
  Two wrong;
  wrong.second_line.replace(16, 4, bytes_of(5, 4));
  CHECK_THAT(unpacked(wrong.text()), Contains("the checksum of entry 'b'"));
  wrong = Two();
  wrong.second.back() = '\x07';
  CHECK_THAT(unpacked(wrong.text()), Contains("damaged"));
}

TEST_CASE("a stored entry is read unchanged", "[zip]") {
  Two stored;
  stored.second = kLocal + header(1, 1, 0) + "ba";
  stored.second.replace(8, 2, bytes_of(0, 2));
  stored.second_line = line("b", 1, 1, "", 34);
  CHECK_THAT(unpacked(stored.text()), Contains("entry 'b' is not at its expected position"));
  stored.second_line.replace(10, 2, bytes_of(0, 2));
  CHECK(unpacked(stored.text()) == "a=a b=a ");
  stored.second_line.replace(10, 2, bytes_of(12, 2));
  CHECK_THAT(unpacked(stored.text()),
             Contains("compressed by method 12; only deflate is supported"));
}

TEST_CASE("a directory holds only entries, and as many as it announces", "[zip]") {
  Two two;
  two.count = 3;
  CHECK_THAT(unpacked(two.text()), Contains("a different number of entries"));
  two = Two();
  two.second_line += "xx";
  CHECK_THAT(unpacked(two.text()), Contains("damaged"));
  two = Two();
  two.second_line[2] = 'x';
  CHECK_THAT(unpacked(two.text()), Contains("its directory"));
  two = Two();
  two.first_line.replace(32, 2, bytes_of(7, 2));
  two.first_line += "comment";
  CHECK(unpacked(two.text()) == "a=a b=a ");
}
