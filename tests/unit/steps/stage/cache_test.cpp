#include "steps/stage/cache.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "steps/stage/seal.h"
#include "steps/transfer/stop_signal.h"
#include "tests/support/catch.h"
#include "tests/support/in_child.h"
#include "tests/support/skip.h"
#include "tests/support/syscalls.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::steps;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

/// Adds `content`, without keeping it in use.
std::string add(const fs::path& root, const std::string& content, uint64_t budget_bytes = 0) {
  Cache cache(root, budget_bytes);
  const fs::path file = cache.new_file();
  write_file_atomic(file, content);
  cache.add(file, sha256_hex(content));
  return sha256_hex(content);
}

bool has(const fs::path& root, const std::string& hash) {
  return fs::exists(root / "objects" / hash.substr(0, 2) / hash);
}

/// Sets the last use of an object, in seconds since 1970.
void set_last_used(const fs::path& root, const std::string& hash, time_t seconds) {
  const timespec times[2] = {{seconds, 0}, {0, UTIME_OMIT}};
  const fs::path object = root / "objects" / hash.substr(0, 2) / hash;
  REQUIRE(::utimensat(AT_FDCWD, object.c_str(), times, 0) == 0);
}

/// The order_of_syncs of adding `count` new objects at once.
std::optional<std::string> syncs_of_adding(const fs::path& root, size_t count) {
  return test::order_of_syncs([&root, count] {
    Cache cache(root, 0);
    std::vector<Cache::NewObject> objects;
    for (size_t i = 0; i < count; ++i) {
      const fs::path file = cache.new_file();
      const std::string content = std::to_string(count) + "-" + std::to_string(i);
      std::ofstream(file) << content;
      objects.push_back({file, sha256_hex(content), content.size()});
    }
    cache.add(objects);
  });
}

}  // namespace

TEST_CASE("an object is found by its hash, and is read-only", "[cache]") {
  const test::TempDir folder;
  const std::string hash = add(folder.path(), "content");
  Cache cache(folder.path(), 0);
  const auto found = cache.find(hash);
  REQUIRE(found.has_value());
  CHECK(read_file(*found) == "content");
  CHECK((fs::status(*found).permissions() & fs::perms(0777)) == fs::perms(0444));
  CHECK_FALSE(cache.find(sha256_hex("other")).has_value());
}

TEST_CASE("an object is on disk before it has its name", "[cache]") {
  const test::TempDir folder;
  const auto one = syncs_of_adding(folder.path(), 1);
  if (!one) return test::skip("processes cannot be traced here");
  CHECK_THAT(*one, Contains("sync link"));
  const auto many = syncs_of_adding(folder.path(), 17);
  REQUIRE(many);
  CHECK_THAT(*many, Contains("sync-all link link"));
}

TEST_CASE("an object that was written to is dropped, a touched one is not", "[cache]") {
  const test::TempDir folder;
  const std::string hash = add(folder.path(), "content");
  const fs::path object = folder.path() / "objects" / hash.substr(0, 2) / hash;
  fs::last_write_time(object, fs::file_time_type::clock::now());
  CHECK(Cache(folder.path(), 0).find(hash).has_value());

  fs::permissions(object, fs::perms(0644));
  { AppendFile(object).append("more"); }
  CHECK_FALSE(Cache(folder.path(), 0).find(hash).has_value());
  CHECK_FALSE(fs::exists(object));
}

TEST_CASE("an object whose mode was changed in a run gets it back", "[cache]") {
  const test::TempDir folder;
  const std::string hash = add(folder.path(), "content");
  const fs::path object = folder.path() / "objects" / hash.substr(0, 2) / hash;
  fs::permissions(object, fs::perms(GENERATE(0555, 0644)));
  const auto found = Cache(folder.path(), 0).find(hash);
  REQUIRE(found.has_value());
  CHECK((fs::status(object).permissions() & fs::perms(0777)) == fs::perms(0444));
}

TEST_CASE("an object that another user made, or may write to, is never used", "[cache][attack]") {
  const test::TempDir folder;
  const std::string hash = add(folder.path(), "content");
  const fs::path object = folder.path() / "objects" / hash.substr(0, 2) / hash;
  SECTION("one with a forged seal, of another user") {
    if (::geteuid() != 0) return test::skip("only root can give a file away");
    fs::permissions(object, fs::perms(0644));
    write_file_atomic(object, "poison");
    seal(object, hash);
    REQUIRE(::chown(object.c_str(), 12345, 12345) == 0);
  }
  SECTION("one that others may write to") { fs::permissions(object, fs::perms(0464)); }
  SECTION("a link to a file with a forged seal") {
    const fs::path poison = folder.write("poison", "poison");
    seal(poison, hash);
    fs::remove(object);
    fs::create_symlink(poison, object);
  }
  CHECK_FALSE(Cache(folder.path(), 0).find(hash).has_value());
  CHECK_FALSE(fs::exists(fs::symlink_status(object)));
}

TEST_CASE("a private cache that another user made is refused", "[cache][attack]") {
  if (::geteuid() != 0) return test::skip("only root can give a folder away");
  const test::TempDir folder;
  fs::permissions(folder.path(), fs::perms(0777));
  const fs::path own = folder.path() / ("user-" + std::to_string(::geteuid()));
  fs::create_directory(own);
  REQUIRE(::chown(own.c_str(), 12345, 12345) == 0);
  CHECK_THROWS_WITH(Cache(folder.path(), 0), Contains("belongs to another user (12345)"));
}

TEST_CASE("a note that others may write to is refused", "[cache][attack]") {
  const test::TempDir folder;
  Cache cache(folder.path(), 0);
  cache.write_note("urls/a.json", {{"sha256", "x"}});
  CHECK(cache.note("urls/a.json").has_value());
  fs::permissions(folder.path() / "urls/a.json", fs::perms(0666));
  CHECK_THROWS_WITH(cache.note("urls/a.json"), Contains("is open to other users"));
}

TEST_CASE("the least recently used objects make room", "[cache]") {
  const test::TempDir folder;
  const std::string a = add(folder.path(), std::string(100, 'a'));
  const std::string b = add(folder.path(), std::string(100, 'b'));
  const std::string c = add(folder.path(), std::string(100, 'c'));
  set_last_used(folder.path(), a, 2000);
  set_last_used(folder.path(), b, 1000);
  set_last_used(folder.path(), c, 3000);
  const std::string d = add(folder.path(), std::string(150, 'd'), 350);
  CHECK(has(folder.path(), a));
  CHECK_FALSE(has(folder.path(), b));
  CHECK(has(folder.path(), c));
  CHECK(has(folder.path(), d));
}

TEST_CASE("objects in use are never evicted, and a budget that is too small is an error",
          "[cache]") {
  const test::TempDir folder;
  const fs::path root = folder.path() / "cache";
  const std::string linked = add(root, std::string(100, 'a'));
  const std::string wanted = add(root, std::string(100, 'b'));
  const std::string unused = add(root, std::string(100, 'c'));
  fs::create_hard_link(root / "objects" / linked.substr(0, 2) / linked, folder.path() / "output");
  Cache other_job(root, 0);
  REQUIRE(other_job.find(wanted).has_value());

  CHECK_THROWS_WITH(
      Cache(root, 300).make_room(101),
      Contains("may hold 300 B, of which 200 B is in use by runs; 101 B more do not"));
  CHECK(has(root, unused));
  Cache(root, 300).make_room(100);
  CHECK(has(root, linked));
  CHECK(has(root, wanted));
  CHECK_FALSE(has(root, unused));
  CHECK_THROWS_WITH(Cache(root, 300).make_room(UINT64_MAX), Contains("do not fit"));
}

TEST_CASE("a returned object stays readable after it left the cache", "[cache]") {
  const test::TempDir folder;
  const std::string hash = add(folder.path(), "content");
  Cache cache(folder.path(), 0);
  const auto found = cache.find(hash);
  fs::remove_all(folder.path() / "objects");
  CHECK(read_file(found.value()) == "content");
}

TEST_CASE("abandoned downloads are evicted, those in progress are not", "[cache]") {
  const test::TempDir folder;
  Cache cache(folder.path(), 100);
  const std::string abandoned = folder.write("partial/abandoned", std::string(60, 'x'));
  FileLock lock = cache.lock("busy", "downloads");
  write_file_atomic(cache.partial("busy", lock), std::string(30, 'x'));
  cache.make_room(40);
  CHECK(fs::exists(abandoned));
  cache.make_room(41);
  CHECK_FALSE(fs::exists(abandoned));
  CHECK(fs::exists(folder.path() / "partial/busy"));
}

TEST_CASE("a note that is being written for a download in progress is not evicted", "[cache]") {
  const test::TempDir folder;
  Cache cache(folder.path(), 100);
  const FileLock lock = cache.lock("busy", "downloads");
  const std::string written = folder.write("partial/busy.json.tmp.1.0", std::string(60, 'x'));
  cache.make_room(100);
  CHECK(fs::exists(written));
}

TEST_CASE("a download that begins at any moment of an eviction keeps its file", "[cache]") {
  for (size_t moment = 0;; ++moment) {
    const test::TempDir folder;
    make_directories(folder.path() / "locks");
    const fs::path partial = folder.write("partial/key", "abandoned");
    std::optional<FileLock> lock;
    size_t calls = 0;
    const auto begin_download = [&](uint64_t) {
      if (calls++ != moment) return test::Fate::made();
      lock = FileLock::try_acquire(folder.path() / "locks/key", "downloads");
      if (lock) write_file_atomic(partial, "begun");
      return test::Fate::made();
    };
    const auto ended = test::run_watched(begin_download, [&] { evict(folder.path(), 0, 0); });
    if (!ended) return test::skip("processes cannot be traced here");
    if (calls <= moment) return;
    CAPTURE(moment);
    REQUIRE(*ended == 0);
    CHECK((!lock || fs::exists(partial)));
  }
}

TEST_CASE("files of killed jobs are removed, those of living jobs are not", "[cache]") {
  const test::TempDir folder;
  test::in_child([&] {
    auto* cache = new Cache(folder.path(), 0);  // never destroyed: the process is killed
    write_file_atomic(cache->new_file(), "half");
    return 0;
  });
  CHECK(std::distance(fs::directory_iterator(folder.path() / "work"), {}) == 1);
  Cache living(folder.path(), 0);
  const fs::path file = living.new_file();
  write_file_atomic(file, "whole");
  Cache next(folder.path(), 0);
  CHECK(std::distance(fs::directory_iterator(folder.path() / "work"), {}) == 2);
  CHECK(read_file(file) == "whole");
}

TEST_CASE("a lock is waited for, and taken over from a dead job", "[cache]") {
  const test::TempDir folder;
  Cache cache(folder.path(), 0);
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    const auto lock = FileLock::try_acquire(folder.path() / "locks/key", "downloads it");
    [[maybe_unused]] const auto written = ::write(ready[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  CHECK_FALSE(FileLock::try_acquire(folder.path() / "locks/key", "too").has_value());
  CHECK_THAT(read_file(folder.path() / "locks/key"),
             Contains("." + std::to_string(owner) + ", which downloads it"));
  REQUIRE(::kill(owner, SIGKILL) == 0);
  REQUIRE(::waitpid(owner, nullptr, 0) == owner);
  CHECK(cache.lock("key", "downloads it").exclusive());
  for (const int end : ready) ::close(end);
}

TEST_CASE("a note is a JSON object or missing", "[cache]") {
  const test::TempDir folder;
  Cache cache(folder.path(), 0);
  CHECK_FALSE(cache.note("urls/x.json").has_value());
  cache.write_note("urls/x.json", {{"etag", "1"}});
  CHECK(cache.note("urls/x.json") == Json({{"etag", "1"}}));
  folder.write("urls/x.json", "{\"etag\":");
  CHECK_FALSE(cache.note("urls/x.json").has_value());
}

TEST_CASE("a sealed object that was written to is damaged, even if read-only again", "[cache]") {
  const test::TempDir folder;
  const fs::path object = folder.write("object", "content");
  const std::string hash = sha256_hex("content");
  seal(object, hash);
  CHECK(is_intact(object, hash));
  fs::permissions(object, fs::perms::owner_write, fs::perm_options::add);
  std::ofstream(object) << "CONTENT";
  fs::permissions(object, fs::perms::owner_write, fs::perm_options::remove);
  CHECK_FALSE(is_intact(object, hash));
}

TEST_CASE("an object is sealed when it is added, so that it is not hashed again", "[cache]") {
  const test::TempDir folder;
  const std::string hash = add(folder.path(), "content");
  struct stat info {};
  REQUIRE(::stat((folder.path() / "objects" / hash.substr(0, 2) / hash).c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0444);
  CHECK(info.st_mtim.tv_nsec == (std::stol(hash.substr(0, 7), nullptr, 16) ^ 7));
}

TEST_CASE("a truncated object is not intact even with its old time", "[cache]") {
  const test::TempDir folder;
  const fs::path object = folder.write("object", "content");
  const std::string hash = sha256_hex("content");
  seal(object, hash);
  struct stat info {};
  REQUIRE(::stat(object.c_str(), &info) == 0);
  REQUIRE(::truncate(object.c_str(), 3) == 0);
  const timespec times[2] = {info.st_atim, info.st_mtim};
  REQUIRE(::utimensat(AT_FDCWD, object.c_str(), times, 0) == 0);
  CHECK_FALSE(is_intact(object, hash));
}

TEST_CASE("an added object replaces a damaged one", "[cache]") {
  const test::TempDir folder;
  const std::string hash = add(folder.path(), "content");
  const fs::path object = folder.path() / "objects" / hash.substr(0, 2) / hash;
  SECTION("one that others may write to") { fs::permissions(object, fs::perms(0664)); }
  SECTION("one that was written to") {
    fs::permissions(object, fs::perms(0644));
    { AppendFile(object).append("more"); }
  }
  SECTION("the damaged object is a folder") {
    fs::remove(object);
    fs::create_directory(object);
  }
  add(folder.path(), "content");
  REQUIRE(Cache(folder.path(), 0).find(hash).has_value());
  CHECK(read_file(object) == "content");
}

TEST_CASE("finding an object updates its time of use", "[cache]") {
  const test::TempDir folder;
  const std::string hash = add(folder.path(), "content");
  set_last_used(folder.path(), hash, 1000);
  CHECK(Cache(folder.path(), 0).find(hash).has_value());
  struct stat info {};
  REQUIRE(::stat((folder.path() / "objects" / hash.substr(0, 2) / hash).c_str(), &info) == 0);
  CHECK(info.st_atim.tv_sec > 1000);
}

TEST_CASE("sixteen objects are synced at once, fifteen one by one", "[cache]") {
  const test::TempDir folder;
  const auto few = syncs_of_adding(folder.path(), 15);
  if (!few) return test::skip("processes cannot be traced here");
  CHECK_THAT(*few, Contains("sync sync") && !Contains("sync-all"));
  CHECK_THAT(*syncs_of_adding(folder.path(), 16), Contains("sync-all link link"));
}

TEST_CASE("an existing object is not added again", "[cache]") {
  const test::TempDir folder;
  const std::string hash = add(folder.path(), "content");
  const fs::path object = folder.path() / "objects" / hash.substr(0, 2) / hash;
  struct stat first {};
  REQUIRE(::stat(object.c_str(), &first) == 0);
  CHECK(add(folder.path(), "content") == hash);
  struct stat second {};
  REQUIRE(::stat(object.c_str(), &second) == 0);
  CHECK(first.st_ino == second.st_ino);
  CHECK(second.st_nlink == 1);
}

TEST_CASE("a cache that cannot be created reports why when it is needed", "[cache]") {
  const test::TempDir folder;
  const fs::path file = folder.write("file", "");
  Cache cache(file / "cache", 0);
  CHECK_FALSE(cache.find(sha256_hex("content")).has_value());
  for (const std::function<void()>& need : std::vector<std::function<void()>>{
           [&] { cache.write_note("urls/a.json", Json::object()); },
           [&] { cache.lock("key", "tests"); }, [&] { cache.new_file(); }}) {
    CHECK_THROWS_WITH(need(),
                      Contains("lacks some of the files, and ") && Contains("Not a directory"));
  }
}

TEST_CASE("a note that is not an object is ignored", "[cache]") {
  const test::TempDir folder;
  Cache cache(folder.path(), 0);
  cache.write_note("urls/a.json", Json::array());
  CHECK_FALSE(cache.note("urls/a.json").has_value());
  CHECK_FALSE(cache.note("urls/none.json").has_value());
  cache.write_note("urls/a.json", {{"sha256", "x"}});
  CHECK(cache.note("urls/a.json") == Json{{"sha256", "x"}});
}

TEST_CASE("in a cache that others may write to, each user has a private folder", "[cache]") {
  const test::TempDir folder;
  fs::permissions(folder.path(), fs::perms(01777));
  const std::string hash = sha256_hex("content");
  add(folder.path(), "content");
  const fs::path own = folder.path() / ("user-" + std::to_string(::geteuid()));
  CHECK(has(own, hash));
  CHECK((fs::status(own).permissions() & fs::perms::all) == fs::perms(0700));
  CHECK(Cache(folder.path(), 0).find(hash).has_value());
}
