#include "steps/transfer/rclone.h"

#include <map>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "steps/transfer/download.h"
#include "steps/transfer/upload.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_dir.h"
#include "tests/support/variable.h"

using namespace dlflow;
using namespace dlflow::steps;
using namespace std::chrono_literals;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

/// A remote that fails once after sending `first`, and then sends "new content".
class FailingRemote {
 public:
  explicit FailingRemote(const std::string& first) {
    folder_.write_program("rclone", R"(#!/bin/sh
here=$(dirname "$0")
for argument; do case $argument in
  --offset=*) offset=${argument#--offset=} ;;
  lsjson) echo '{"Size": 11, "IsDir": false, "Hashes": {"md5": "new"}}'; exit ;;
  hashsum) for file; do true; done; content=$(cat $file)
    if [ "$content" = 'new content' ]; then echo new; else echo other; fi; exit ;;
esac; done
if [ -e "$here/first" ]; then
  cat "$here/first"; rm "$here/first"; echo 'connection reset' >&2; exit 1
fi
printf 'new content' | tail -c +$((offset + 1))
)");
    folder_.write("first", first);
  }

 private:
  test::TempDir folder_;
  test::Variable path_{"PATH", test::path_with(folder_.path())};
};

/// Downloads a file that the remote lists as `listed`.
Downloaded download_to(const fs::path& partial, const RemoteFile& listed) {
  return download(
      {.address = parse_address("rclone://remote/file"), .partial = partial, .listed = listed},
      partial.string() + ".tool", {.max_tries = 3, .first_wait = 1ms});
}

}  // namespace

TEST_CASE("a part of rclone's download is continued if its content is the same", "[rclone]") {
  const test::TempDir folder;
  const FailingRemote remote("new ");
  const fs::path partial = folder.path() / "partial";
  CHECK(download_to(partial, {.name = "file", .bytes = 11, .version = "11 today"}).continued);
  CHECK(read_file(partial) == "new content");
}

TEST_CASE("a part of rclone's download with other content is not continued", "[rclone]") {
  const test::TempDir folder;
  const FailingRemote remote("old ");
  const fs::path partial = folder.path() / "partial";
  download_to(partial, {.name = "file", .bytes = 11, .version = "11 today"});
  CHECK(read_file(partial) == "new content");
}

TEST_CASE("a part of rclone's download is dropped if its content is unknown", "[rclone]") {
  const test::TempDir folder;
  const FailingRemote remote("old ");
  const fs::path partial = folder.path() / "partial";
  CHECK_FALSE(download_to(partial, {.name = "file"}).continued);
  CHECK(read_file(partial) == "new content");
}

namespace {

/// An rclone with answers given by a test, and a log of calls.
class PlayedRclone {
 public:
  PlayedRclone() {
    folder_.write_program("rclone", R"(#!/bin/sh
here=$(dirname "$0")
while case $1 in --*) true ;; *) false ;; esac; do shift; done
echo "$*" >> "$here/calls"
answer=$here/$1.1
if [ ! -e "$answer" ]; then answer=$here/$1.2; fi
cat "$answer.errors" >&2 2>/dev/null
cat "$answer"
status=$(cat "$answer.status")
rm "$answer"
exit $status
)");
  }

  /// The answer to the next call of `command`, at most two.
  void answers(const std::string& command, const std::string& output, int status = 0,
               const std::string& errors = "") {
    const std::string name = command + "." + std::to_string(++given_[command]);
    folder_.write(name, output);
    folder_.write(name + ".status", std::to_string(status));
    folder_.write(name + ".errors", errors);
  }
  void lists(const Json& entries) { answers("lsjson", entries.dump()); }

  /// "lsjson --stat remote:file" for each call, without the options of all calls.
  std::vector<std::string> calls() const {
    std::vector<std::string> lines =
        split(read_file_if_exists(folder_.path() / "calls").value_or(""), '\n');
    lines.pop_back();
    return lines;
  }
  fs::path temporary() const { return folder_.path() / "temporary"; }
  std::vector<RemoteFile> list(const std::string& address) const {
    return rclone_list(parse_address(address), temporary());
  }

 private:
  test::TempDir folder_;
  test::Variable path_{"PATH", test::path_with(folder_.path())};
  std::map<std::string, int> given_;
};

/// A file of five bytes that is sent to remote:folder/file.
struct Sending {
  Uploaded send(bool can_rename = true, uint64_t bytes_per_second = 0) {
    return upload({.file = file,
                   .sha256 = "aa",
                   .bytes = 5,
                   .address = parse_address("rclone://remote/folder/file"),
                   .can_rename = can_rename,
                   .bytes_per_second = bytes_per_second,
                   .progress = [this](uint64_t bytes) { progress = bytes; }},
                  rclone.temporary(), {.max_tries = 1, .first_wait = 1ms});
  }

  test::TempDir folder;
  fs::path file = folder.write("file", "12345");
  uint64_t progress = 0;
  PlayedRclone rclone;
};

Json there(uint64_t bytes, const Json& hashes = Json::object()) {
  return {{"Path", "file"}, {"Size", bytes}, {"IsDir", false}, {"Hashes", hashes}};
}

const std::string kStat =
    "lsjson --stat --no-mimetype --hash-type=sha256 --hash-type=sha1 --hash-type=md5 "
    "remote:folder/";
using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("rclone lists a folder with all below it", "[rclone]") {
  PlayedRclone rclone;
  rclone.lists({{{"Path", "b"}, {"Size", 3}, {"ModTime", "today"}},
                "no entry",
                {{"Path", "a/x"}, {"Size", -1}, {"ModTime", "today"}},
                {{"Path", "c"}, {"Size", 0}}});
  const std::vector<RemoteFile> files = rclone.list("rclone://remote/folder/");
  CHECK(rclone.calls() == Lines{"lsjson --no-mimetype --files-only --recursive remote:folder"});
  REQUIRE(files.size() == 3);
  CHECK(files[0].name == "a/x");
  CHECK_FALSE(files[0].bytes);
  CHECK(files[0].version.empty());  // its time of change is unknown
  CHECK(files[1].name == "b");
  CHECK(files[1].version == "3 today");
  CHECK(files[2].bytes == 0U);
  CHECK(files[2].version.empty());
}

TEST_CASE("rclone is asked for the names of one level, or for one file", "[rclone]") {
  PlayedRclone rclone;
  rclone.lists({{{"Path", "a.txt"}, {"Size", 1}}, {{"Path", "b.bin"}, {"Size", 1}}});
  CHECK(rclone.list("rclone://remote/folder/*.txt").size() == 1);
  rclone.lists(there(5));
  CHECK(rclone.list("rclone://remote/folder/file").at(0).bytes == 5U);
  CHECK(rclone.calls() == Lines{"lsjson --no-mimetype --files-only remote:folder",
                                "lsjson --no-mimetype --stat remote:folder/file"});
}

TEST_CASE("a failed list of rclone is reported with what to do", "[rclone]") {
  PlayedRclone rclone;
  rclone.lists({{"Path", "folder"}, {"IsDir", true}});
  CHECK_THROWS_WITH(rclone.list("rclone://remote/folder"),
                    Contains("there is no such file; if it is a folder, add a / at the end"));
  rclone.answers("lsjson", "text");
  CHECK_THROWS_WITH(rclone.list("rclone://remote/folder/"), Contains("this rclone is too old"));
  PlayedRclone other;
  other.answers("lsjson", "", GENERATE(3, 4), "directory not found");
  CHECK_THAT(test::error_of([&] { other.list("rclone://remote/none/"); }, Errc::NotFound),
             Contains("cannot list") && Contains("directory not found"));
  other.answers("lsjson", "", 1, "connection reset");
  CHECK_FALSE(
      test::error_of([&] { other.list("rclone://remote/none/"); }, Errc::Unavailable).empty());
}

TEST_CASE("a file that a remote has by its hash is not sent again", "[rclone][upload]") {
  Sending file;
  SECTION("by the known hash") { file.rclone.lists(there(5, {{"sha256", "aa"}, {"md5", "zz"}})); }
  SECTION("by another hash, which rclone computes here") {
    file.rclone.lists(there(5, {{"md5", "cc"}}));
    file.rclone.answers("hashsum", "cc  file\n");
  }
  CHECK(file.send() == Uploaded::AlreadyThere);
  CHECK(file.rclone.calls().at(0) == kStat + "file");
}

TEST_CASE("a file that a remote lacks is sent, compared, then given its name", "[rclone][upload]") {
  Sending file;
  SECTION("the remote has no such file") { file.rclone.answers("lsjson", "", 4); }
  SECTION("the remote has a folder of that name") {
    file.rclone.lists({{"Size", 5}, {"IsDir", true}});
  }
  SECTION("the remote's file has another size") { file.rclone.lists(there(4, {{"sha256", "aa"}})); }
  SECTION("the remote's file has other content") {
    file.rclone.lists(there(5, {{"sha256", "bb"}}));
  }
  SECTION("the remote's file has no hash") { file.rclone.lists(there(5)); }
  file.rclone.answers("copyto", "", 0, "{\"level\":\"notice\",\"stats\":{\"bytes\":5}}\n");
  file.rclone.lists(there(5));  // has the same size; the remote reports nothing else
  file.rclone.answers("moveto", "");
  CHECK(file.send() == Uploaded::Sent);
  CHECK(file.progress == 5);
  const Lines calls = file.rclone.calls();
  REQUIRE(calls.size() == 4);
  CHECK(calls[1] ==
        "copyto --ignore-times --use-json-log --log-level=NOTICE --stats=500ms "
        "--stats-log-level=NOTICE --bwlimit=off " +
            file.file.string() + " remote:folder/file.dlflow-part");
  CHECK(calls[2] == kStat + "file.dlflow-part");
  CHECK(calls[3] == "moveto remote:folder/file.dlflow-part remote:folder/file");
}

TEST_CASE("a file is sent to an object store under its own name", "[rclone][upload]") {
  Sending file;
  file.rclone.answers("lsjson", "", 3);
  file.rclone.answers("copyto", "");
  file.rclone.lists(there(5, {{"sha256", "aa"}}));
  CHECK(file.send(false, 1000) == Uploaded::Sent);
  const Lines calls = file.rclone.calls();
  REQUIRE(calls.size() == 3);
  CHECK_THAT(calls[1], Contains("--bwlimit=1000B") && Catch::EndsWith(" remote:folder/file"));
}

TEST_CASE("an upload that fails, or has other content, is an error", "[rclone][upload]") {
  Sending file;
  file.rclone.answers("lsjson", "", 3);
  SECTION("the transfer fails in rclone's words") {
    file.rclone.answers("copyto", "", 1,
                        "{\"level\":\"notice\",\"msg\":\"a note\"}\n"
                        "{\"level\":\"error\",\"msg\":\"quota exceeded\"}\n");
    CHECK_THROWS_WITH(file.send(), Contains("cannot send to rclone://remote/folder/file") &&
                                       Contains("quota exceeded") && !Contains("a note"));
  }
  SECTION("the sent file has other content") {
    file.rclone.answers("copyto", "");
    file.rclone.lists(there(5, {{"sha1", "bb"}}));
    file.rclone.answers("hashsum", "aa  file\n");
    CHECK_THROWS_WITH(file.send(), Contains("does not match what was sent to it"));
  }
  SECTION("the sent file cannot be hashed") {
    file.rclone.answers("copyto", "");
    file.rclone.lists(there(5, {{"sha1", "bb"}}));
    file.rclone.answers("hashsum", "", 1, "no permission");
    CHECK_THROWS_WITH(file.send(), Contains("cannot hash " + file.file.string()));
  }
  SECTION("the sent file cannot be renamed") {
    file.rclone.answers("copyto", "");
    file.rclone.lists(there(5));
    file.rclone.answers("moveto", "", 1, "no permission");
    CHECK_THROWS_WITH(file.send(), Contains("cannot rename to rclone://remote/folder/file"));
  }
}

TEST_CASE("a remote reports whether it can rename", "[rclone][upload]") {
  PlayedRclone rclone;
  const Address address = parse_address("rclone://remote/x");
  rclone.answers("backend", R"({"Features": {"Move": true}})");
  CHECK(can_rename(address, rclone.temporary()));
  rclone.answers("backend", R"({"Features": {}})");
  CHECK_FALSE(can_rename(address, rclone.temporary()));
  CHECK(rclone.calls().at(0) == "backend features remote:");
  PlayedRclone failing;
  failing.answers("backend", "", 1, "didn't find section in config file");
  CHECK_THROWS_WITH(can_rename(address, failing.temporary()), Contains("cannot ask for"));
}
