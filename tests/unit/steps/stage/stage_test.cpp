#include "steps/stage/stage.h"

#include <sys/mount.h>
#include <sys/stat.h>

#include <csignal>

#include "base/sha256.h"
#include "base/text.h"
#include "steps/stage/staged_source.h"
#include "steps/transfer/stop_signal.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/unit/steps/stage/archives.h"
#include "tests/unit/steps/step_fixture.h"
#include "tests/unit/steps/transfer/servers.h"

using namespace dlflow;
using namespace std::chrono_literals;
using dlflow::steps::stage_main;
using test::Nginx;
using test::StepFixture;
using test::TempDir;
namespace fs = std::filesystem;

namespace {

Json with(std::initializer_list<Json> sources) {
  Json list = Json::array();
  for (const Json& source : sources) list.push_back(source);
  return {{"sources", list}};
}

std::string file_url(const fs::path& path) { return "file://" + path.string(); }

ino_t inode(const fs::path& path) {
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  return info.st_ino;
}

/// The number of files below `folder`.
size_t count_files(const fs::path& folder) {
  size_t count = 0;
  std::error_code none;
  for (const auto& entry : fs::recursive_directory_iterator(folder, none)) {
    if (!entry.is_directory()) ++count;
  }
  return count;
}

/// Checks that a failed step leaves nothing in its outputs or in the cache.
void check_nothing_left(const StepFixture& step, const fs::path& cache) {
  CHECK(count_files(step.outputs()) == 0);
  for (const char* folder : {"objects", "partial", "unpacked", "urls", "work"}) {
    CAPTURE(folder);
    CHECK(count_files(cache / folder) == 0);
  }
}

/// Runs the step in a process of its own, as the engine does.
pid_t start_step() {
  const pid_t pid = ::fork();
  DLFLOW_CHECK(pid >= 0);
  if (pid == 0) ::_exit(stage_main());
  return pid;
}

int exit_status_of(pid_t pid) {
  int status = 0;
  DLFLOW_CHECK(::waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void wait_until(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (!condition() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(5ms);
  REQUIRE(condition());
}

/// The one partial download in the cache, or an empty path.
fs::path partial_in(const fs::path& cache) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(cache / "partial", none)) {
    if (entry.path().extension().empty()) return entry.path();
  }
  return {};
}

/// A mounted file system for a test; mounting needs rights that not every user has.
class Mount {
 public:
  explicit Mount(const std::string& options) {
    mounted_ = ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, options.c_str()) == 0;
  }
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;
  ~Mount() {
    if (mounted_) ::umount2(folder_.path().c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  void make_read_only() const {
    DLFLOW_CHECK(::mount("tmpfs", path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "") == 0);
  }
  const fs::path& path() const { return folder_.path(); }

 private:
  TempDir folder_;
  bool mounted_ = false;
};

}  // namespace

TEST_CASE("local files are verified, unpacked and counted", "[stage]") {
  const TempDir data;
  const std::string images(50'000, 'i');
  const std::string packed = test::gzip(images);
  const auto gz = data.write("images.gz", packed);
  const auto plain = data.write("notes.txt", "notes");
  const StepFixture step(
      with({{{"url", file_url(gz)}, {"sha256", sha256_hex(packed)}, {"unpack", "gzip"}},
            {{"url", file_url(plain)}, {"name", "readme"}}}));
  REQUIRE(stage_main() == 0);
  CHECK(read_file(step.outputs() / "data/images") == images);
  CHECK(read_file(step.outputs() / "data/readme") == "notes");
  const std::string hash =
      sha256_hex(sha256_hex(images) + "  images\n" + sha256_hex("notes") + "  readme\n");
  CHECK(step.outputs_json() == Json({{"path", {{"value", "data"}, {"sha256", hash}}}}));
  CHECK(step.summary() == Json({{"bytes", 50'005}, {"files", 2}}));
  const auto lines = split(read_file(step.folder().path() / "metrics.jsonl"), '\n');
  const Json last = Json::parse(lines.at(lines.size() - 2));
  CHECK(last["bytes"] == last["total_bytes"]);
  CHECK(last["message"] == "48.8 KiB staged, 2 files");
}

TEST_CASE("staging twice copies nothing and follows changes", "[stage]") {
  const TempDir data;
  const auto file = data.write("file", "old");
  StepFixture step(with({{{"url", file_url(file)}}}));
  StepFixture::set("DLFLOW_CACHE", data.path() / "cache");
  REQUIRE(stage_main() == 0);
  const ino_t first = inode(step.outputs() / "data/file");
  REQUIRE(stage_main() == 0);
  CHECK(inode(step.outputs() / "data/file") == first);
  data.write("file", "new");
  REQUIRE(stage_main() == 0);
  CHECK(read_file(step.outputs() / "data/file") == "new");
  CHECK(count_files(data.path() / "cache/work") == 0);
}

TEST_CASE("an archive is placed with its folders, links and programs", "[stage]") {
  const TempDir data;
  const auto tar = data.write(
      "set.tar.gz", test::gzip(test::tar({{.name = "a/b.txt", .content = "B"},
                                          {.name = "run", .content = "#!", .mode = 0755},
                                          {.name = "l", .type = '2', .link_target = "a/b.txt"}})));
  const StepFixture step(with({{{"url", file_url(tar)}, {"unpack", "tar"}}}));
  REQUIRE(stage_main() == 0);
  CHECK(read_file(step.outputs() / "data/set/a/b.txt") == "B");
  CHECK(fs::read_symlink(step.outputs() / "data/set/l") == "a/b.txt");
  CHECK(::access((step.outputs() / "data/set/run").c_str(), X_OK) == 0);
  CHECK(step.summary()["files"] == 3);
}

TEST_CASE("a wrong hash or a damaged archive leaves nothing behind", "[stage]") {
  const TempDir data;
  const auto cut = data.write("cut.gz", test::gzip(std::string(50'000, 'x')).substr(0, 40));
  const auto evil = data.write("evil.tar", test::tar({{.name = "ok", .content = "x"},
                                                      {.name = "../../evil", .content = "x"}}));
  const auto nginx = Nginx::start();
  const std::string url = nginx ? nginx->serve("f", "content") : file_url(cut);
  const std::string wrong(64, '0');
  const std::vector<Json> bad = {
      {{"url", file_url(cut)}, {"sha256", wrong}}, {{"url", file_url(cut)}, {"unpack", "gzip"}},
      {{"url", file_url(cut)}, {"unpack", "zip"}}, {{"url", file_url(evil)}, {"unpack", "tar"}},
      {{"url", file_url(data.path() / "none")}},   {{"url", file_url(data.path())}},
      {{"url", url}, {"sha256", wrong}},
  };
  for (const Json& source : bad) {
    CAPTURE(source.dump());
    const StepFixture step(with({source}));
    CHECK(stage_main() == 1);
    check_nothing_left(step, step.folder().path() / "cache");
  }
}

TEST_CASE("a download happens once with a declared hash, otherwise after each change", "[stage]") {
  const auto nginx = Nginx::start();
  if (!nginx) return test::skip("nginx is not installed");
  const std::string declared = nginx->serve("declared", "D");
  const std::string open = nginx->serve("open.gz", test::gzip("old"));
  const StepFixture step(with(
      {{{"url", declared}, {"sha256", sha256_hex("D")}}, {{"url", open}, {"unpack", "gzip"}}}));
  REQUIRE(stage_main() == 0);
  REQUIRE(stage_main() == 0);
  const auto lines = split(read_file(step.folder().path() / "metrics.jsonl"), '\n');
  const Json last = Json::parse(lines.at(lines.size() - 2));
  CHECK(last["bytes"] == last["total_bytes"]);
  CHECK(nginx->count_requests("\"GET /declared HTTP/1.1\" 200") == 1);
  CHECK(nginx->count_requests("\"GET /open.gz HTTP/1.1\" 200") == 1);
  CHECK(nginx->count_requests("\"GET /open.gz HTTP/1.1\" 304") == 1);
  nginx->serve("open.gz", test::gzip("newer"));
  REQUIRE(stage_main() == 0);
  CHECK(read_file(step.outputs() / "data/open") == "newer");
}

TEST_CASE("many jobs that want one file download it once", "[stage]") {
  const auto nginx = Nginx::start();
  if (!nginx) return test::skip("nginx is not installed");
  const TempDir shared;
  const std::string text(200'000, 'x');
  nginx->serve("file", text);
  std::vector<std::unique_ptr<StepFixture>> steps;
  std::vector<pid_t> pids;
  for (int i = 0; i < 20; ++i) {
    steps.push_back(std::make_unique<StepFixture>(
        with({{{"url", nginx->url("slow/file")}, {"sha256", sha256_hex(text)}}})));
    StepFixture::set("DLFLOW_CACHE", shared.path());
    pids.push_back(start_step());
  }
  for (const pid_t pid : pids) CHECK(exit_status_of(pid) == 0);
  for (const auto& step : steps) CHECK(read_file(step->outputs() / "data/file") == text);
  CHECK(nginx->count_requests("\"GET /slow/file HTTP/1.1\"") == 1);
}

TEST_CASE("a stopped download is kept and continued", "[stage]") {
  const auto nginx = Nginx::start();
  if (!nginx) return test::skip("nginx is not installed");
  const std::string text(400'000, 'x');
  nginx->serve("file", text);
  const StepFixture step(with({{{"url", nginx->url("slow/file")}, {"sha256", sha256_hex(text)}}}));
  const fs::path cache = step.folder().path() / "cache";
  const bool politely = GENERATE(true, false);
  CAPTURE(politely);
  const pid_t pid = start_step();
  wait_until([&] {
    const fs::path partial = partial_in(cache);
    return !partial.empty() && fs::file_size(partial) >= 50'000;
  });
  ::kill(pid, politely ? SIGTERM : SIGKILL);
  CHECK(exit_status_of(pid) == (politely ? 75 : -SIGKILL));
  CHECK_FALSE(fs::exists(step.outputs() / "data"));

  REQUIRE(stage_main() == 0);
  CHECK(read_file(step.outputs() / "data/file") == text);
  CHECK(nginx->count_requests("\"GET /slow/file HTTP/1.1\" 206") == 1);
  CHECK(count_files(cache / "partial") == 0);
  CHECK(count_files(cache / "work") == 0);
}

TEST_CASE("a stop is obeyed before the next file is placed", "[stage]") {
  const TempDir folder;
  const auto content = folder.write("content", "x");
  steps::StagedSource staged;
  staged.listing["a"].sha256 = sha256_hex("x");
  staged.contents[sha256_hex("x")] = content;
  steps::watch_stop_signals();
  ::raise(SIGTERM);
  CHECK_THROWS_AS(place(staged, folder.path() / "data", "set"), steps::Stopped);
  CHECK_FALSE(fs::exists(folder.path() / "data/set/a"));
  steps::watch_stop_signals();
  place(staged, folder.path() / "data", "set");
  CHECK(read_file(folder.path() / "data/set/a") == "x");
}

TEST_CASE("a budget that is too small is an error, and nothing is left", "[stage]") {
  const TempDir data;
  const auto big = data.write("big", std::string(2000, 'x'));
  const auto packed = data.write("packed.gz", test::gzip(std::string(2000, 'x')));
  const auto nginx = Nginx::start();
  std::vector<Json> sources = {{{"url", file_url(big)}},
                               {{"url", file_url(packed)}, {"unpack", "gzip"}}};
  if (nginx) sources.push_back({{"url", nginx->serve("big", std::string(2000, 'x'))}});
  for (const Json& source : sources) {
    CAPTURE(source.dump());
    const StepFixture step(with({source}));
    StepFixture::set("DLFLOW_CACHE_BUDGET", "1000");
    CHECK(stage_main() == 1);
    CHECK(count_files(step.outputs()) == 0);
    CHECK(count_files(step.folder().path() / "cache/objects") == 0);
    StepFixture::set("DLFLOW_CACHE_BUDGET", "2000");
    CHECK(stage_main() == 0);
  }
}

TEST_CASE("a full disk is an error, and its space is given back", "[stage]") {
  const Mount disk("size=200k");
  if (!disk.mounted()) return test::skip("mounting a small file system needs root");
  const TempDir data;
  const std::string text(1'000'000, 'x');
  const auto nginx = Nginx::start();
  std::vector<std::string> urls = {file_url(data.write("big", text))};
  if (nginx) urls.push_back(nginx->serve("big", text));
  for (const std::string& url : urls) {
    CAPTURE(url);
    const StepFixture step(with({{{"url", url}}}));
    StepFixture::set("DLFLOW_CACHE", disk.path() / "cache");
    CHECK(stage_main() == 1);
    check_nothing_left(step, disk.path() / "cache");
  }
}

TEST_CASE("a read-only cache provides its objects and refuses new ones", "[stage]") {
  const Mount disk("size=1m");
  if (!disk.mounted()) return test::skip("mounting a file system needs root");
  const TempDir data;
  const auto cached = data.write("cached", "C");
  const auto other = data.write("other", "O");
  {
    const StepFixture step(with({{{"url", file_url(cached)}}}));
    StepFixture::set("DLFLOW_CACHE", disk.path() / "cache");
    REQUIRE(stage_main() == 0);
  }
  disk.make_read_only();
  const StepFixture hit(with({{{"url", file_url(cached)}, {"sha256", sha256_hex("C")}}}));
  StepFixture::set("DLFLOW_CACHE", disk.path() / "cache");
  CHECK(stage_main() == 0);
  CHECK(read_file(hit.outputs() / "data/cached") == "C");
  const StepFixture miss(with({{{"url", file_url(other)}}}));
  StepFixture::set("DLFLOW_CACHE", disk.path() / "cache");
  CHECK(stage_main() == 1);
}

TEST_CASE("a folder and a pattern are staged file by file", "[stage]") {
  const TempDir data;
  data.write("set/a.gz", test::gzip("A"));
  data.write("set/b.gz", test::gzip("B"));
  data.write("set/sub/notes", "N");
  data.write_program("set/sub/run", "#!");
  const std::string url = file_url(data.path() / "set");
  const StepFixture step(
      with({{{"url", url + "/"}}, {{"url", url + "/*.gz"}, {"unpack", "gzip"}}}));
  REQUIRE(stage_main() == 0);
  const fs::path staged = step.outputs() / "data";
  CHECK(read_file(staged / "set/sub/notes") == "N");
  CHECK(::access((staged / "set/sub/run").c_str(), X_OK) == 0);
  CHECK(read_file(staged / "a") == "A");
  CHECK(read_file(staged / "b") == "B");
  CHECK(step.summary()["files"] == 6);
}

TEST_CASE("a manifest pins a folder, a pattern and an archive", "[stage]") {
  const TempDir data;
  const std::string tar = test::tar({{.name = "x", .content = "X"}});
  data.write("a.txt", "A");
  data.write("b.txt", "B");
  data.write("t.tar", tar);
  const auto line = [](const std::string& content, const std::string& name) {
    return sha256_hex(content) + "  " + name + "\n";
  };
  const std::string texts = line("A", "a.txt") + line("B", "b.txt");
  struct Case {
    Json source;
    std::string manifest;
    int status;
  };
  const std::string url = file_url(data.path());
  const Json pattern = {{"url", url + "/*.txt"}};
  const Json archive = {{"url", url + "/t.tar"}, {"unpack", "tar"}};
  const std::vector<Case> cases = {
      {pattern, texts, 0},
      {pattern, line("A", "a.txt"), 1},                       // surplus
      {pattern, texts + line("C", "c.txt"), 1},               // missing
      {pattern, line("A", "a.txt") + line("X", "b.txt"), 1},  // changed
      {{{"url", url + "/"}}, texts + line(tar, "t.tar"), 0},
      {archive, line("X", "x"), 0},
      {archive, line("Y", "x"), 1},
  };
  const TempDir sums;
  for (const Case& one : cases) {
    CAPTURE(one.source.dump(), one.manifest);
    const fs::path file = sums.write("SUMS", one.manifest);
    for (const Json& manifest : {Json(file.string()), Json{{"url", file_url(file)},
                                                           {"sha256", sha256_hex(one.manifest)}}}) {
      Json source = one.source;
      source["manifest"] = manifest;
      const StepFixture step(with({source}));
      CHECK(stage_main() == one.status);
      CHECK(fs::exists(step.outputs() / "data") == (one.status == 0));
    }
  }
  Json source = pattern;
  source["manifest"] = {{"url", file_url(sums.write("SUMS", texts))},
                        {"sha256", sha256_hex("other")}};
  const StepFixture step(with({source}));
  CHECK(stage_main() == 1);
}

TEST_CASE("names that would overlap are refused", "[stage]") {
  const TempDir data;
  data.write("a/x", "1");
  data.write("b/x", "2");
  data.write("b/y/z", "3");
  const std::string url = file_url(data.path());
  for (const Json& request :
       {with({{{"url", url + "/a/*"}}, {{"url", url + "/b/*"}}}),
        with({{{"url", url + "/b/"}, {"name", "x"}}, {{"url", url + "/a/*"}}})}) {
    CAPTURE(request.dump());
    const StepFixture step(request);
    CHECK(stage_main() == 1);
    CHECK(count_files(step.outputs()) == 0);
  }
}

TEST_CASE("a web server's folder has the files in its manifest", "[stage]") {
  const auto nginx = Nginx::start();
  if (!nginx) return test::skip("nginx is not installed");
  const TempDir sums;
  nginx->serve("set_a", "A");
  nginx->serve("set_b", "B");
  const auto file =
      sums.write("SUMS", sha256_hex("A") + "  set_a\n" + sha256_hex("B") + "  set_b\n");
  const StepFixture step(
      with({{{"url", nginx->url("")}, {"name", "set"}, {"manifest", file.string()}}}));
  REQUIRE(stage_main() == 0);
  CHECK(read_file(step.outputs() / "data/set/set_b") == "B");
  CHECK(step.summary()["files"] == 2);
}
