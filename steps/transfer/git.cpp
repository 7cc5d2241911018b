#include "steps/transfer/git.h"

#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "base/remove_tree.h"
#include "steps/environment/step_environment.h"
#include "steps/transfer/tool.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;

/// Overrides all .gitattributes: exports every file exactly as committed.
constexpr const char* kAttributes =
    "* -text -eol -ident -filter -working-tree-encoding -export-subst -export-ignore\n";

/// git in a temporary bare repository, with the user's configuration (proxies, credential helpers).
class Git {
 public:
  Git(const Address& address, fs::path repository)
      : address_(address), repository_(std::move(repository)) {
    run_or_throw({"init", "--quiet", "--bare", "--template=", repository_});
    make_directories(repository_ / "info");
    write_file_atomic(repository_ / "info/attributes", kAttributes);
  }
  Git(const Git&) = delete;
  Git& operator=(const Git&) = delete;
  ~Git() {
    std::error_code ignored;
    remove_tree(repository_, ignored);
  }

  ToolResult run(std::vector<std::string> arguments) const {
    const std::string ssh = environment_variable("GIT_SSH_COMMAND");
    Tool tool{.argv = {"git", "--git-dir", repository_, "-c", "gc.auto=0"},
              .temporary = repository_.string() + ".git",
              .environment = {"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false", "LC_ALL=C",
                              "GIT_SSH_COMMAND=" + (ssh.empty() ? "ssh" : ssh) +
                                  " -o BatchMode=yes -o LogLevel=ERROR -o ConnectTimeout=30"}};
    for (std::string& argument : arguments) tool.argv.push_back(std::move(argument));
    return run_tool(tool);
  }

  void run_or_throw(const std::vector<std::string>& arguments) const {
    const ToolResult result = run(arguments);
    if (result.exit_status != 0) throw failure(result);
  }

  Error failure(const ToolResult& result) const {
    return tool_error("cannot get " + address_.display(), result);
  }

  bool has(const std::string& commit) const {
    return run({"cat-file", "-e", commit + "^{commit}"}).exit_status == 0;
  }

 private:
  const Address& address_;
  fs::path repository_;
};

/// Fetches only the commit. An old server may refuse that; then fetches all branches and tags.
void fetch(const Git& git, const std::string& url, const std::string& commit) {
  const std::vector<std::string> common = {"fetch", "--quiet", "--no-tags",
                                           "--no-recurse-submodules"};
  std::vector<std::string> one = common;
  one.insert(one.end(), {"--depth=1", url, commit});
  const ToolResult result = git.run(one);
  if (result.exit_status == 0) return;
  const bool refuses = result.message.find("unadvertised object") != std::string::npos ||
                       result.message.find("not our ref") != std::string::npos;
  if (!refuses) throw git.failure(result);
  std::vector<std::string> all = common;
  all.insert(all.end(), {url, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"});
  git.run_or_throw(all);
}

}  // namespace

void git_archive(const Address& address, const std::string& commit, const fs::path& repository,
                 const fs::path& archive, const RetryPolicy& retry) {
  const Git git(address, repository);
  const std::string url = address.url.substr(std::string_view("git+").size());
  with_retries(
      retry, [] { return uint64_t{0}; }, [&] { fetch(git, url, commit); });
  if (!git.has(commit)) {
    throw Error(Errc::NotFound, address.display() + " has no commit " + commit +
                                    "; `git ls-remote` prints those of its branches");
  }
  git.run_or_throw({"archive", "--format=tar", "--output=" + archive.string(), commit});
}

}  // namespace dlflow::steps
