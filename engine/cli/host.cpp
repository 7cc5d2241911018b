#include "engine/cli/host.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "base/sha256.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "engine/cli/complete.h"
#include "engine/cli/usage.h"
#include "engine/cli/workflow_argument.h"
#include "engine/model/profile.h"
#include "engine/share/bundle_reader.h"
#include "engine/share/contents.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kRemoteVerbs = {"run", "status", "logs", "resubmit"};

constexpr int kSshFailed = 255;
constexpr int kNoProgram = 97;  // from our script: the program is missing there
constexpr int kCutOff = 98;     // from our script: the transfer was incomplete

/// Relative to the home folder of the remote machine.
constexpr const char* kRemoteFolder = ".cache/dlflow/host";

/// Turns `script` into a command for any login shell. csh expands exclamation marks from its
/// history and ends a quoted text at a line break, and shells treat quotes and backslashes in it
/// differently. Such characters are written in octal, which the remote sh decodes.
std::string for_any_shell(std::string_view script) {
  std::string text;
  for (const char letter : script) {
    const bool plain = uint8_t(letter) >= ' ' && letter != '!' && letter != '\'' && letter != '\\';
    std::array<char, 8> octal{};
    std::snprintf(octal.data(), octal.size(), "\\0%03o", unsigned(uint8_t(letter)));
    text += plain ? std::string(1, letter) : octal.data();
  }
  return "sh -c 'eval \"$(printf %b \"$0\")\"' '" + text + "'";
}

/// A login node, by its name for ssh.
class Host {
 public:
  explicit Host(std::string name) : name_(std::move(name)) {}

  /// Runs a POSIX shell script there. \param input  its standard input; empty: none.
  int run(const std::string& script, const fs::path& input, bool terminal = false) const {
    Command ssh;
    ssh.argv = {"ssh"};
    if (terminal) ssh.argv.emplace_back("-t");
    for (const char* word : {"-o", "BatchMode=no", "--"}) ssh.argv.emplace_back(word);
    ssh.argv.push_back(name_);
    ssh.argv.push_back(for_any_shell(script));
    ssh.environment = current_environment();
    ssh.standard_input = terminal ? fs::path("/dev/tty") : input;
    const int status = wait_for(start(ssh)).code;
    if (status == kSshFailed) {
      throw Error(Errc::Unavailable, "ssh cannot reach " + name_ + "; try `ssh " +
                                         shell_quote(name_) + " true` first");
    }
    return status;
  }

  /// Copies a file into our folder there, as `name`, unless it is there already: names contain a
  /// hash of the content. The copy is atomic, even if the connection is lost.
  void send(const fs::path& file, const std::string& name, bool is_program = false) const {
    const std::string size = std::to_string(fs::file_size(file));
    const std::string script = std::string("set -e; cd; umask 077; mkdir -p ") + kRemoteFolder +
                               "; cd " + kRemoteFolder + "; f=" + shell_quote(name) +
                               "; t=\"$f.$$\"; whole() { [ \"$(wc -c < \"$1\")\" -eq " + size +
                               " ]; }; if [ -e \"$f\" ] && whole \"$f\"; then exit 0; fi; cat > "
                               "\"$t\" || { rm -f \"$t\"; " +
                               "exit 1; }; whole \"$t\" || { rm -f \"$t\"; exit " +
                               std::to_string(kCutOff) + "; }" +
                               (is_program ? "; chmod 700 \"$t\"" : "") + "; mv -f \"$t\" \"$f\"";
    const int status = run(script, file);
    if (status == 0) return;
    const std::string what = file.string() + " to " + name_ + ":" + kRemoteFolder;
    if (status == kCutOff) {
      throw Error(Errc::Unavailable,
                  "the copy of " + what + " was incomplete and has been removed there; try again");
    }
    throw Error(Errc::Unavailable, "cannot copy " + what + "; is the home folder full?");
  }

 private:
  std::string name_;
};

std::string short_hash(const fs::path& file) { return sha256_file(file).substr(0, 16); }

/// Sends the workflow as one file and returns its remote name.
/// \param set  values of `--set` for its parameters, which may name files
std::string send_workflow(Session& session, const Host& host, const fs::path& file,
                          const std::vector<std::string>& set) {
  const TemporaryFolder folder(fs::temp_directory_path() / "dlflow-host");
  fs::path bundle = file;
  if (!is_bundle(file)) {
    Workflow workflow = WorkflowArgument{file.string(), set}.read();
    check_steps(workflow);
    NothingKnown nothing;
    const Plan plan = make_plan(std::move(workflow), Profile{}, {}, nothing, session.store());
    bundle = folder.path() / "workflow.dlflow";
    const Manifest manifest = write_bundle(collect(plan, {}, session.store()), bundle);
    for (const PackedData& data : manifest.data) {
      if (data.packed || session.quiet) continue;
      std::fprintf(stderr,
                   "%s is not copied to that host; put it there, or include it in a bundle: dlflow "
                   "pack --with-data\n",
                   data.url.c_str());
    }
  }
  const std::string name = file.stem().string() + "-" + short_hash(bundle) + ".dlflow";
  host.send(bundle, name);
  return std::string(kRemoteFolder) + "/" + name;
}

/// Sends the profile `name` if it is a local file and returns its remote path; otherwise returns
/// the name, which is known there. The file is not parsed: its base may exist only there.
std::string send_profile(const Host& host, const std::string& name) {
  const std::string file = profile_file(name);
  if (file.empty()) return name;
  const std::string there = fs::path(file).stem().string() + "-" + short_hash(file) + ".yaml";
  host.send(file, there);
  return std::string(kRemoteFolder) + "/" + there;
}

/// The values of all `--set KEY=VALUE` and `--set=KEY=VALUE`.
std::vector<std::string> settings_in(const std::vector<std::string>& words) {
  constexpr std::string_view kSet = "--set";
  constexpr std::string_view kSetIs = "--set=";
  std::vector<std::string> settings;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == kSet && i + 1 < words.size()) {
      settings.push_back(words[++i]);
    } else if (words[i].starts_with(kSetIs)) {
      settings.push_back(words[i].substr(kSetIs.size()));
    }
  }
  return settings;
}

/// Sends the files that `words` name, and replaces them by their remote paths.
void send_what_is_named(const CLI::App& app, Session& session, const Host& host,
                        std::vector<std::string>& words) {
  const auto place = place_of_argument(app, words);
  if (words.front() == "run" && place && fs::exists(words[*place])) {
    words[*place] = send_workflow(session, host, words[*place], settings_in(words));
  }
  constexpr std::string_view kProfile = "--profile=";
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--profile" && i + 1 < words.size()) {
      words[i + 1] = send_profile(host, words[i + 1]);
      ++i;
    } else if (words[i].starts_with(kProfile)) {
      words[i] = std::string(kProfile) + send_profile(host, words[i].substr(kProfile.size()));
    }
  }
}

/// Throws unless `host` can be a name for ssh and not one of its options.
void check_host(const std::string& host) {
  const bool plain = std::ranges::all_of(host, [](unsigned char c) { return c > ' ' && c < 0x7F; });
  if (!host.empty() && host.front() != '-' && plain) return;
  throw UsageError("--host: '" + host + "' is not a name for ssh; write user@login.example.org");
}

}  // namespace

void add_host_option(CLI::App& command) {
  command.add_option("--host", "run the command on this machine, over ssh; dlflow is copied there")
      ->type_name("USER@LOGIN");
}

std::optional<HostRequest> host_request(std::span<const std::string> words) {
  constexpr std::string_view kHost = "--host";
  constexpr std::string_view kHostIs = "--host=";
  HostRequest request;
  bool asked = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool alone = words[i] == kHost;
    if (alone && i + 1 == words.size()) return std::nullopt;  // its value is missing
    if (alone || words[i].starts_with(kHostIs)) {
      request.host = alone ? words[++i] : words[i].substr(kHostIs.size());
      asked = true;
    } else {
      request.words.push_back(words[i]);
    }
  }
  if (!asked) return std::nullopt;
  check_host(request.host);
  return request;
}

int run_on_host(const CLI::App& app, Session& session, const HostRequest& request) {
  std::vector<std::string> words = request.words;
  // The verb must come first; options before it are moved behind.
  const auto verb = std::ranges::find_if(words, [](const std::string& word) {
    return std::ranges::find(kRemoteVerbs, word) != kRemoteVerbs.end();
  });
  const bool other = verb == words.end() || std::any_of(words.begin(), verb, [](const auto& word) {
                       return !word.starts_with("-");
                     });
  if (other) throw UsageError("--host is for run, status, logs and resubmit");
  std::rotate(words.begin(), verb, verb + 1);
  const Host host(request.host);
  send_what_is_named(app, session, host, words);
  const fs::path own = this_program();
  const std::string program = "dlflow-" + short_hash(own);
  std::string script = "cd; p=./" + std::string(kRemoteFolder) + "/" + program +
                       "; [ -x \"$p\" ] && [ \"$(wc -c < \"$p\")\" -eq " +
                       std::to_string(fs::file_size(own)) + " ] || exit " +
                       std::to_string(kNoProgram) + "; exec \"$p\"";
  for (const std::string& word : words) script += " " + shell_quote(word);
  const bool terminal = is_terminal(0) && is_terminal(1);
  const int status = host.run(script, {}, terminal);
  if (status != kNoProgram) return status;
  host.send(own, program, true);
  return host.run(script, {}, terminal);
}

}  // namespace dlflow
