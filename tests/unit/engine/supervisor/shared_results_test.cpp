#include "engine/supervisor/shared_results.h"

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "base/file.h"
#include "base/remove_tree.h"
#include "base/sha256.h"
#include "engine/supervisor/results.h"
#include "tests/support/catch.h"
#include "tests/support/deep_tree.h"
#include "tests/support/in_child.h"
#include "tests/support/limited.h"
#include "tests/support/skip.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
namespace fs = std::filesystem;

namespace {

const Fingerprint kFingerprint = Fingerprint::of_hex(std::string(64, 'f'));

/// A job and its folders right after the end of its program.
class Sharer {
 public:
  Sharer(const test::TempDir& folder, const std::string& run) {
    spec.run = run;
    spec.job = "train";
    spec.step = "train";
    spec.run_directory = folder.path() / run;
    spec.job_directory = spec.run_directory / "steps/train";
    spec.cache = folder.path() / "cache";
    files.attempt = spec.job_directory / "attempt-1";
    fs::create_directories(files.outputs());
  }

  /// Makes a trained network and the report of its program.
  JobEvent trained() {
    make_directories(files.outputs() / "sub");
    write_file_atomic(files.outputs() / "sub/log", "42");
    make_directories(checkpoints_directory(spec) / "step-1");
    write_file_atomic(checkpoints_directory(spec) / "step-1/model", "weights");
    write_file_atomic(files.outputs() / "outputs.json",
                      R"({"sub": "sub", "model": "checkpoints/step-1", "size": 7})");
    JobEvent end;
    end.state = JobState::Succeeded;
    Outputs outputs = collect_outputs(spec, files);
    end.outputs = outputs.values;
    end.metrics = {{"accuracy", 0.9}};
    end.fingerprint = kFingerprint;
    publish(spec, files, std::move(outputs.publication));
    return end;
  }

  auto take() { return take_shared_result(spec, files, kFingerprint); }

  JobSpec spec;
  AttemptFiles files;
};

/// A folder with a cache that others of the group may write to.
class SharedCache : public test::TempDir {
 public:
  explicit SharedCache(mode_t mode = 02770) {
    fs::create_directory(path() / "cache");
    ::chmod((path() / "cache").c_str(), mode);
  }
};

/// A job that has shared its result.
struct Shared : Sharer {
  explicit Shared(const SharedCache& folder) : Sharer(folder, "first-1") {
    REQUIRE(share_result(spec, trained()));
  }
};

fs::path entry(const test::TempDir& folder) {
  return folder.path() / "cache/results/ff" / kFingerprint.hex();
}

void change_result(const SharedCache& folder, const std::function<void(Json&)>& change) {
  Json result = Json::parse(read_file(entry(folder) / "result.json"));
  change(result);
  write_file_atomic(entry(folder) / "result.json", result.dump());
}

bool is_taken(const SharedCache& folder) {
  return Sharer(folder, "second-2").take().result.has_value();
}

}  // namespace

TEST_CASE("a shared result of one job is reused by the next", "[shared_results]") {
  const SharedCache folder;
  Sharer first(folder, "first-1");
  JobEvent end = first.trained();
  end.outputs["model"]["matrix"] = {{"lr", 0.1}};  // as for a selected one
  REQUIRE(share_result(first.spec, end));
  fs::remove_all(first.spec.run_directory);

  Sharer second(folder, "second-2");
  const auto taken = second.take().result;
  REQUIRE(taken.has_value());
  CHECK(taken->run == "first-1");
  CHECK(taken->metrics == end.metrics);
  CHECK(read_file(second.files.outputs() / "sub/log") == "42");
  CHECK(read_file(checkpoints_directory(second.spec) / "step-1/model") == "weights");
  const fs::path here = second.spec.job_directory;
  CHECK(taken->outputs.at("sub").at("value") == (here / "outputs/sub").string());
  CHECK(taken->outputs.at("model").at("value") == (here / "checkpoints/step-1").string());
  CHECK(taken->outputs.at("size") == end.outputs.at("size"));
  CHECK(taken->outputs.at("model").at("matrix") == Json{{"lr", 0.1}});
  CHECK(taken->outputs.at("model").at("sha256") == end.outputs.at("model").at("sha256"));
}

TEST_CASE("a cache without write permission for others holds no shared results",
          "[shared_results]") {
  const SharedCache folder(0700);
  Sharer first(folder, "first-1");
  CHECK(share_result(first.spec, first.trained()));
  CHECK(fs::is_empty(first.spec.cache));
}

TEST_CASE("a changed shared result is not reused, and leaves nothing", "[shared_results]") {
  const SharedCache folder;
  Shared first(folder);
  const std::string changed =
      GENERATE(as<std::string>{}, "outputs/sub/log", "checkpoints/step-1/model", "result.json");
  fs::remove(entry(folder) / changed);
  write_file_atomic(entry(folder) / changed, "something else");

  Sharer second(folder, "second-2");
  CHECK_FALSE(second.take().result.has_value());
  CHECK(fs::is_empty(second.files.outputs()));
  const fs::path checkpoints = checkpoints_directory(second.spec);
  CHECK((!fs::exists(checkpoints) || fs::is_empty(checkpoints)));
}

TEST_CASE("no two users share a file, and a shared file is never written to", "[shared_results]") {
  const SharedCache folder(02775);
  const mode_t umask = ::umask(002);
  Shared first(folder);
  ::umask(umask);
  Sharer second(folder, "second-2");
  REQUIRE(second.take().result.has_value());
  const fs::path shared = entry(folder) / "outputs/sub/log";
  CHECK((fs::status(shared).permissions() & fs::perms::all) ==
        (fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read));
  for (const AttemptFiles& files : {first.files, second.files}) {
    const fs::path own = files.outputs() / "sub/log";
    fs::permissions(own, fs::perms::owner_all);
    std::ofstream(own, std::ios::app) << "mine";
  }
  CHECK(read_file(shared) == "42");
  Sharer third(folder, "third-3");
  CHECK(third.take().result.has_value());
}

TEST_CASE("a damaged result is replaced by the next one", "[shared_results]") {
  const SharedCache folder;
  Shared first(folder);
  const std::string name = GENERATE(as<std::string>{}, "outputs/sub/log", "outputs/outputs.json");
  write_file_atomic(entry(folder) / name, "{}");
  Sharer second(folder, "second-2");
  const TakenResult taken = second.take();
  CHECK_FALSE(taken.result.has_value());
  CHECK(taken.was_damaged);
  REQUIRE(share_result(second.spec, second.trained(), Existing::IsDamaged));
  Sharer third(folder, "third-3");
  const auto result = third.take().result;
  REQUIRE(result.has_value());
  CHECK(result->run == "second-2");
}

TEST_CASE("another user's damaged result is left, and the next is put beside it",
          "[shared_results]") {
  if (::geteuid() != 0) return test::skip("only root can be two users");
  const SharedCache folder(0700);
  ::chmod(folder.path().c_str(), 0777);
  constexpr gid_t kGroup = 54321;
  REQUIRE(::chown((folder.path() / "cache").c_str(), uid_t(-1), kGroup) == 0);
  ::chmod((folder.path() / "cache").c_str(), 02770);
  Shared first(folder);
  write_file_atomic(entry(folder) / "outputs/sub/log", "damaged");
  REQUIRE(test::in_child([&] {
            if (::setgroups(1, &kGroup) != 0 || ::setgid(54322) != 0) return 3;
            if (::setuid(54322) != 0) return 3;
            Sharer second(folder, "second-2");
            const bool was_damaged = second.take().was_damaged;
            const bool shared = share_result(second.spec, second.trained(), Existing::IsDamaged);
            return was_damaged && shared ? 0 : 1;
          }) == 0);
  Sharer third(folder, "third-3");
  const auto result = third.take().result;
  REQUIRE(result.has_value());
  CHECK(result->run == "second-2");
}

TEST_CASE("links that stay in a result are shared as links, and links out of it are not",
          "[shared_results]") {
  const SharedCache folder;
  Sharer first(folder, "first-1");
  make_directories(checkpoints_directory(first.spec) / "step-1");
  fs::create_directory_symlink("step-1", checkpoints_directory(first.spec) / "latest");
  REQUIRE(share_result(first.spec, first.trained()));
  SECTION("in the shared state") {
    Sharer second(folder, "second-2");
    REQUIRE(second.take().result.has_value());
    CHECK(fs::read_symlink(checkpoints_directory(second.spec) / "latest") == "step-1");
  }
  SECTION("with a later change") {
    const std::string target =
        GENERATE(as<std::string>{}, "..", "../..", "step-1/../../..", "/etc");
    fs::remove(entry(folder) / "checkpoints/latest");
    fs::create_directory_symlink(target, entry(folder) / "checkpoints/latest");
    Sharer second(folder, "second-2");
    CHECK_FALSE(second.take().result.has_value());
    CHECK_FALSE(fs::exists(fs::symlink_status(checkpoints_directory(second.spec) / "latest")));
  }
}

TEST_CASE("a shared file of another user is neither removed nor replaced", "[shared_results]") {
  const SharedCache folder;
  Shared first(folder);
  for (const fs::path& shared : {entry(folder).parent_path(), folder.path() / "cache/results"}) {
    CHECK((fs::status(shared).permissions() & fs::perms::sticky_bit) != fs::perms::none);
  }
}

TEST_CASE("a result is not shared through a link", "[shared_results]") {
  const SharedCache folder;
  const fs::path outside = folder.path() / "outside";
  make_directories(outside);
  const fs::path link = folder.path() / GENERATE("cache/results", "cache/results/ff");
  make_directories(link.parent_path());
  fs::create_directory_symlink(outside, link);
  Sharer first(folder, "first-1");
  CHECK_FALSE(share_result(first.spec, first.trained()));
  CHECK(fs::is_empty(outside));
}

TEST_CASE("a shared result with a link to the outside is not reused", "[shared_results]") {
  const SharedCache folder;
  Shared first(folder);
  SECTION("an additional file") {
    fs::create_symlink(folder.write("secret", "word"), entry(folder) / "outputs/secret");
  }
  SECTION("a pipe") { REQUIRE(::mkfifo((entry(folder) / "outputs/pipe").c_str(), 0666) == 0); }
  SECTION("a link to an outside file") {
    const std::string name = GENERATE("outputs", "checkpoints/step-1/model", "result.json", "");
    const fs::path elsewhere = folder.path() / "elsewhere";
    const fs::path moved = name.empty() ? entry(folder) : entry(folder) / name;
    fs::rename(moved, elsewhere);
    fs::create_symlink(elsewhere, moved);
  }
  Sharer second(folder, "second-2");
  CHECK_FALSE(second.take().result.has_value());
  CHECK(fs::is_empty(second.files.outputs()));
}

TEST_CASE("a shared result that names files of others is not reused", "[shared_results]") {
  const SharedCache folder;
  Shared first(folder);
  Sharer second(folder, "second-2");
  const std::string path =
      GENERATE("outputs/../secret", "../secret", "elsewhere/secret", "/etc/hostname", "");
  const fs::path secret = second.files.attempt / "secret";  // the target of outputs/../secret
  write_file_atomic(secret, "word");
  change_result(folder, [&](Json& result) { result["outputs"]["model"]["path"] = path; });
  CHECK_FALSE(second.take().result.has_value());
  CHECK(fs::is_empty(second.files.outputs()));
}

TEST_CASE("a shared result with an output that is another file is not reused", "[shared_results]") {
  const SharedCache folder;
  Shared first(folder);
  change_result(folder, [](Json& result) {
    result["outputs"]["size"] = {{"value", "/etc/hostname"}, {"sha256", "0"}};
  });
  CHECK_FALSE(is_taken(folder));
}

TEST_CASE("a shared result nested a million levels deep is not reused",
          "[shared_results][attack]") {
  const SharedCache folder;
  Shared first(folder);
  write_file_atomic(entry(folder) / "result.json", R"({"outputs":)" + std::string(1'000'000, '['));
  CHECK_FALSE(is_taken(folder));
  CHECK(list_shared_results(folder.path() / "cache").empty());
}

TEST_CASE("a shared result of an unexpected form is not reused", "[shared_results][attack]") {
  const SharedCache folder;
  Shared first(folder);
  change_result(folder, [](Json& result) {
    SECTION("metrics") { result["metrics"] = GENERATE(Json("x"), Json({1})); }
    SECTION("the hash of a value") { result["outputs"]["size"]["sha256"] = 7; }
    SECTION("an output") { result["outputs"]["size"] = 7; }
    SECTION("all outputs") { result["outputs"] = Json::array(); }
    SECTION("the run") { result["run"] = 7; }
  });
  CHECK_FALSE(is_taken(folder));
}

TEST_CASE("results are listed by their last use, and removed", "[shared_results]") {
  const SharedCache folder;
  Shared first(folder);
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(1000);
  fs::last_write_time(entry(folder), long_ago);
  const fs::path other = folder.path() / "cache/results/ee" / std::string(64, 'e');
  fs::create_directories(other.parent_path());
  fs::copy(entry(folder), other, fs::copy_options::recursive);

  auto listed = list_shared_results(first.spec.cache);
  REQUIRE(listed.size() == 2);
  CHECK(listed[0].fingerprint == kFingerprint.text());
  CHECK(listed[0].run == "first-1");
  CHECK(listed[0].job == "train");
  CHECK(listed[0].last_used == long_ago);
  CHECK(listed[0].bytes > 2 + 7);

  Sharer second(folder, "second-2");
  REQUIRE(second.take().result.has_value());
  listed = list_shared_results(first.spec.cache);
  REQUIRE(listed.size() == 2);
  CHECK(listed[1].fingerprint == kFingerprint.text());

  CHECK(remove_shared_result(listed[1]));
  CHECK_FALSE(fs::exists(entry(folder)));
  CHECK(fs::is_empty(entry(folder).parent_path()));
  CHECK(list_shared_results(first.spec.cache).size() == 1);
  CHECK(read_file(second.files.outputs() / "sub/log") == "42");
}

TEST_CASE("a result is removed at any depth of folders", "[shared_results][attack]") {
  const SharedCache folder;
  Shared first(folder);
  const auto listed = list_shared_results(first.spec.cache);
  REQUIRE(listed.size() == 1);
  test::make_deep(entry(folder) / "deep", 200);
  const test::Limited<RLIMIT_NOFILE> few(64);
  CHECK(remove_shared_result(listed[0]));
  CHECK(fs::is_empty(entry(folder).parent_path()));
}

TEST_CASE("a job that is forced, has begun, or only stages takes no shared result",
          "[shared_results]") {
  const SharedCache folder;
  Shared first(folder);
  Sharer second(folder, "second-2");
  SECTION("forced") { second.spec.reuse = false; }
  SECTION("stage") { second.spec.uses = "stage"; }
  SECTION("begun") {
    make_directories(checkpoints_directory(second.spec));
    write_file_atomic(checkpoints_directory(second.spec) / "own", "");
  }
  CHECK_FALSE(second.take().result.has_value());
}

TEST_CASE("a file that was changed after its publication is not shared", "[shared_results]") {
  const SharedCache folder;
  Sharer first(folder, "first-1");
  const JobEvent end = first.trained();
  fs::remove(first.files.outputs() / "sub/log");
  write_file_atomic(first.files.outputs() / "sub/log", "43");
  CHECK_FALSE(share_result(first.spec, end));
  CHECK_FALSE(fs::exists(entry(folder)));
}

TEST_CASE("an external output is not shared", "[shared_results]") {
  const SharedCache folder;
  Sharer first(folder, "first-1");
  JobEvent end = first.trained();
  const Json value =
      GENERATE(as<Json>(), "/etc/hostname", "file:///etc/hostname", Json::array({"/etc/hostname"}));
  end.outputs["elsewhere"] = {{"value", value}, {"sha256", "0"}};
  CHECK(share_result(first.spec, end));
  CHECK_FALSE(fs::exists(entry(folder)));
}

TEST_CASE("a command's result at an address is not shared, nor taken from an earlier version",
          "[shared_results]") {
  const SharedCache folder;
  Sharer first(folder, "first-1");
  JobEvent end = first.trained();
  REQUIRE(share_result(first.spec, end));
  const Json value = "s3://bucket/data";
  const Json at_address = {{"value", value}, {"sha256", sha256_hex(value.dump())}};
  change_result(folder, [&](Json& result) { result["outputs"]["data"] = at_address; });
  CHECK_FALSE(is_taken(folder));

  remove_tree(entry(folder));
  end.outputs["data"] = at_address;
  CHECK(share_result(first.spec, end));
  CHECK_FALSE(fs::exists(entry(folder)));
}

TEST_CASE("only members of a cache's group take its results", "[shared_results]") {
  if (::geteuid() != 0) return test::skip("only root can be two users");
  constexpr gid_t kGroup = 54321;
  const bool member = GENERATE(true, false);
  const SharedCache folder(0700);
  ::chmod(folder.path().c_str(), 0777);
  REQUIRE(::chown((folder.path() / "cache").c_str(), uid_t(-1), kGroup) == 0);
  ::chmod((folder.path() / "cache").c_str(), 02770);
  Shared first(folder);

  const int status = test::in_child([&] {
    if (::setgroups(member ? 1 : 0, &kGroup) != 0 || ::setgid(54322) != 0) return 3;
    if (::setuid(54322) != 0) return 3;
    Sharer second(folder, "second-2");
    const bool taken = second.take().result.has_value();
    return int(taken &&
               read_file(checkpoints_directory(second.spec) / "step-1/model") == "weights");
  });
  CHECK(status == (member ? 1 : 0));
}
