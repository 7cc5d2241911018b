#include "steps/transfer/git.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "steps/transfer/tool.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/skip.h"
#include "tests/support/temp_dir.h"
#include "tests/support/variable.h"

using namespace dlflow;
using namespace dlflow::steps;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

constexpr RetryPolicy kQuick{.max_tries = 2, .first_wait = 1ms};

/// A repository with two commits, and the archive that a step makes of one.
class Repository {
 public:
  /// Returns false if git is not installed.
  bool make() {
    folder_.write("work/code", "one\r\n");
    folder_.write("work/.gitattributes", "secret export-ignore\ncode text eol=lf\n");
    folder_.write("work/secret", "s");
    const ToolResult made = shell(
        "git init -q . && git add . && git -c user.name=n -c user.email=e commit -qm one &&"
        " git rev-parse HEAD && echo two > code &&"
        " git -c user.name=n -c user.email=e commit -qam two && git rev-parse HEAD");
    if (made.exit_status != 0) return false;
    first_ = made.output.substr(0, 40);
    second_ = made.output.substr(41, 40);
    return true;
  }

  ToolResult shell(const std::string& script) const {
    return run_tool(
        {.argv = {"sh", "-c", "cd '" + (folder_.path() / "work").string() + "' && " + script},
         .temporary = folder_.path() / "tool",
         .environment = {"HOME=" + folder_.path().string()}});
  }

  void get(const std::string& commit) const {
    const Address address = parse_address("git+file://" + (folder_.path() / "work").string());
    git_archive(address, commit, folder_.path() / "bare", archive(), kQuick);
  }

  fs::path archive() const { return folder_.path() / "archive.tar"; }
  /// "code secret": the files of the archive.
  std::string names() const {
    return shell("tar -tf '" + archive().string() + "' | sort | tr '\\n' ' '").output;
  }
  std::string content(const std::string& name) const {
    return shell("tar -xOf '" + archive().string() + "' " + name).output;
  }
  const std::string& first() const { return first_; }
  const std::string& second() const { return second_; }
  const fs::path& folder() const { return folder_.path(); }

 private:
  test::TempDir folder_;
  std::string first_;
  std::string second_;
};

}  // namespace

TEST_CASE("the files of a commit are packed as they were committed", "[git]") {
  Repository repository;
  if (!repository.make()) return test::skip("git is not installed");
  repository.get(repository.first());
  CHECK(repository.names() == ".gitattributes code secret ");
  CHECK(repository.content("code") ==
        repository.shell("git show " + repository.first() + ":code").output);
  repository.get(repository.second());
  CHECK(repository.content("code") == "two\n");
  CHECK_FALSE(fs::exists(repository.folder() / "bare"));
}

TEST_CASE("an unknown commit is refused with advice", "[git]") {
  Repository repository;
  if (!repository.make()) return test::skip("git is not installed");
  const std::string none(40, '1');
  CHECK_THAT(test::error_of([&] { repository.get(none); }, Errc::NotFound),
             Catch::Contains("has no commit " + none + "; `git ls-remote`"));
  CHECK_FALSE(fs::exists(repository.archive()));
  CHECK_FALSE(fs::exists(repository.folder() / "bare"));
}

TEST_CASE("a commit that a server does not serve by hash is fetched with the branches", "[git]") {
  Repository repository;
  if (!repository.make()) return test::skip("git is not installed");
  // Like git before 2.5, and as a server may be configured; the newer protocol always serves
  // commits by hash.
  repository.shell("git config --global protocol.version 0");
  const test::Variable config("GIT_CONFIG_GLOBAL", repository.folder() / ".gitconfig");
  repository.get(repository.first());
  CHECK(repository.names() == ".gitattributes code secret ");
}

TEST_CASE("a missing repository is reported in git's words", "[git]") {
  Repository repository;
  if (!repository.make()) return test::skip("git is not installed");
  fs::remove_all(repository.folder() / "work");
  fs::create_directory(repository.folder() / "work");
  CHECK_THROWS_WITH(repository.get(std::string(40, '1')),
                    Catch::Contains("cannot get git+file://") && Catch::Contains("repository"));
}
