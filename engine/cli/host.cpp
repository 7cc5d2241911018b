#include "engine/cli/host.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/handle.h"
#include "base/process.h"
#include "base/sha256.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "engine/cli/help.h"
#include "engine/cli/usage.h"
#include "engine/cli/workflow_argument.h"
#include "engine/model/profile.h"
#include "engine/share/bundle_reader.h"
#include "engine/share/contents.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr int kSshFailed = 255;
constexpr int kNoProgram = 97;  // from our script: the program is missing there
constexpr int kCutOff = 98;     // from our script: the transfer was incomplete

/// Our scripts print this before their answer. The text before it comes from the start-up files of
/// the login shell.
constexpr std::string_view kMark = "dlflow answers:";
constexpr const char* kPrintMark = "printf %s dlflow ' answers:'; ";  // not as csh may echo it

/// The variable that names the host of commands without --host.
constexpr const char* kHostVariable = "DLFLOW_HOST";

/// Relative to the home folder of the remote machine.
constexpr const char* kRemoteFolder = ".cache/dlflow/host";

/// Turns `script` into a command for any login shell. csh expands exclamation marks from its
/// history, ends a quoted text at a line break and refuses long words, and shells treat quotes and
/// backslashes in it differently. Such characters are written in octal, which the remote sh
/// decodes. The script is not sent over standard input, which belongs to the verb.
std::string for_any_shell(const std::string& script) {
  constexpr size_t kWord = 1000;
  std::string words, word;
  for (const char letter : script) {
    const auto byte = uint8_t(letter);
    const bool plain =
        byte >= ' ' && byte < 0x7F && letter != '!' && letter != '\'' && letter != '\\';
    std::array<char, 8> octal{};
    std::snprintf(octal.data(), octal.size(), "\\0%03o", unsigned(byte));
    word += plain ? std::string(1, letter) : octal.data();
    if (word.size() < kWord) continue;
    words += " '" + word + "'";
    word.clear();
  }
  return "sh -c 'eval \"$(printf %b \"$@\")\"' sh" + words + " '" + word + "'";
}

/// Copies the part of a remote command's output that follows the mark to `output`, if there is one.
/// Returns whether there is a mark; `before` gets the part before it.
bool pass_on(int descriptor, std::FILE* output, std::string& before) {
  bool begun = false;
  std::array<char, 65536> buffer{};
  for (ssize_t got; (got = ::read(descriptor, buffer.data(), buffer.size())) != 0;) {
    if (got < 0 && errno != EINTR) throw_errno("cannot read from ssh", errno);
    std::string_view text(buffer.data(), size_t(std::max<ssize_t>(got, 0)));
    if (!begun) {
      before += text;
      const size_t mark = before.find(kMark);
      begun = mark != before.npos;
      text = begun ? std::string_view(before).substr(mark + kMark.size()) : "";
    }
    if (output == nullptr) continue;
    std::fwrite(text.data(), 1, text.size(), output);  // the caller checks for errors at the end
    std::fflush(output);
  }
  return begun;
}

std::string short_hash(const fs::path& file) { return sha256_file(file).substr(0, 16); }

/// A login node, by its name for ssh.
class Host {
 public:
  explicit Host(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }

  /// Runs a POSIX shell script in the home folder there. Returns its exit status, or nothing if it
  /// ends before it prints the mark because the program is missing. `output` may be nullptr;
  /// `terminal` is whether it has the user's.
  std::optional<int> run(const std::string& script, const fs::path& input, std::FILE* output,
                         bool terminal) const {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_errno("cannot make a pipe", errno);
    const FileDescriptor reader(ends[0]);
    FileDescriptor writer(ends[1]);
    Command ssh;
    ssh.argv = {"ssh"};
    if (terminal) ssh.argv.emplace_back("-t");
    for (const char* word : {"-o", "BatchMode=no", "--"}) ssh.argv.emplace_back(word);
    ssh.argv.push_back(name_);
    ssh.argv.push_back(for_any_shell("cd; " + script));
    ssh.environment = current_environment();
    ssh.standard_input = terminal ? fs::path("/dev/tty") : input;
    ssh.standard_output = "/proc/self/fd/" + std::to_string(writer.get());
    const pid_t process = start(ssh);
    writer.reset();
    std::string before;
    const bool begun = pass_on(reader.get(), output, before);
    const int status = wait_for(process).code;
    if (begun && status != kSshFailed) return status;
    if (status == kNoProgram) return std::nullopt;
    const std::string name = shell_quote(name_);
    if (begun) {
      throw Error(Errc::Unavailable, "the connection to " + name_ +
                                         " was lost; `dlflow status --host " + name +
                                         "` shows what goes on there");
    }
    const bool reached = status != kSshFailed;
    throw Error(Errc::Unavailable,
                (reached ? name_ + " runs no commands for ssh" : "ssh cannot reach " + name_) +
                    "; try `ssh " + name + " true` first" +
                    (reached ? ". It answered: " + std::string(trim(before)) : ""));
  }

  /// Copies a file into our folder there as HASH/`name`, unless it is there already, and returns
  /// its path. The copy is atomic, even if the connection is lost.
  std::string send(const fs::path& file, const std::string& name, bool is_program = false) const {
    const std::string folder = std::string(kRemoteFolder) + "/" + short_hash(file);
    const std::string size = std::to_string(fs::file_size(file));
    const std::string script = kPrintMark + std::string("set -e; umask 077; mkdir -p ") + folder +
                               "; cd " + folder + "; f=" + shell_quote("./" + name) +
                               "; t=\"$f.$$\"; whole() { [ \"$(wc -c < \"$1\")\" -eq " + size +
                               " ]; }; if [ -e \"$f\" ] && whole \"$f\"; then exit 0; fi; cat > "
                               "\"$t\" || { rm -f \"$t\"; " +
                               "exit 1; }; whole \"$t\" || { rm -f \"$t\"; exit " +
                               std::to_string(kCutOff) + "; }" +
                               (is_program ? "; chmod 700 \"$t\"" : "") + "; mv -f \"$t\" \"$f\"";
    const std::optional<int> status = run(script, file, nullptr, false);
    if (status == 0) return folder + "/" + name;
    const std::string what = name + " to " + name_ + ":" + kRemoteFolder;
    if (status == kCutOff) {
      throw Error(Errc::Unavailable,
                  "the copy of " + what + " was incomplete and has been removed there; try again");
    }
    throw Error(Errc::Unavailable, "cannot copy " + what + "; is the home folder full?");
  }

 private:
  std::string name_;
};

struct HostArguments {
  std::string host;
  bool send = false;  ///< local data, too
};

/// Names the local data and images that a bundle for `host` does not contain.
void name_what_stays(const Manifest& manifest, const Bundle& bundle, const fs::path& base,
                     const std::string& host) {
  const auto note = [&host](const std::string& name, const char* advice) {
    std::fprintf(stderr, "note: %s is not sent, and must be on %s; %s\n", escaped(name).c_str(),
                 host.c_str(), advice);
  };
  constexpr const char* kSend = "--send sends it, or a `stage` step copies it from a server";
  std::error_code none;
  for (const PackedData& data : manifest.data) {
    if (!data.packed) note(data.url, kSend);
  }
  for (const std::string& name : bundle.left_out) {
    if (!fs::exists(base / name, none)) continue;
    note(name, fs::path(name).is_relative() ? kSend : "--send sends what is beside the workflow");
  }
  for (const auto& [name, image] : manifest.images) {
    if (image.from.starts_with("docker://")) continue;
    note(image.from, "a bundle of `dlflow pack --with-images` contains it");
  }
}

/// The command line for the host. The files that it names are sent.
struct RemoteCommand {
  Session& session;
  const Host& host;
  const CLI::App& verb;
  bool send_data;

  /// Returns the words after `dlflow`, quoted for sh, without --host and --send. `output`, if
  /// given, gets the value $o.
  std::string make(const CLI::Option* output) const {
    std::string options = command_words(verb).substr(std::string("dlflow ").size());
    std::string arguments = " --";
    for (const CLI::Option* option : all_options(verb)) {
      const std::string name = option_word(*option);
      if (name == "--host" || name == "--send") continue;
      if (option == output) {
        options += std::string(session.quiet ? "" : " --quiet") + " --output=\"$o\"";
        continue;
      }
      for (const std::string& value : option->results()) {
        const bool is_flag = value_word(*option).empty();
        const std::string there = is_flag ? "" : value_there(*option, value);
        if (option->get_positional()) {
          arguments += " " + shell_quote(there);
        } else {  // `--set=` would take the next word
          options += " " + name + (is_flag ? "" : (there.empty() ? " " : "=") + shell_quote(there));
        }
      }
    }
    return options + arguments;
  }

  /// Sends the file that `value` names, if it names one here; paths of folders are those of the
  /// host.
  std::string value_there(const CLI::Option& option, const std::string& value) const {
    const std::string kind = value_word(option);
    if (kind == "NAME" && option.get_name() != "--partition") {
      // The profile is not parsed: its base may exist only there.
      const std::string file = profile_file(value);
      return file.empty() ? value : host.send(file, fs::path(file).filename());
    }
    std::error_code none;
    if (option.check_lname("output") || !fs::exists(value, none)) return value;
    if (kind == "WORKFLOW") return send_workflow(value);
    return kind == "BUNDLE" || kind == "FILE" ? host.send(value, fs::path(value).filename())
                                              : value;
  }

  /// Sends the workflow as one file and returns its remote name.
  std::string send_workflow(const fs::path& file) const {
    const std::string name = file.stem().string() + ".dlflow";
    if (is_bundle(file)) return host.send(file, name);
    WorkflowArgument argument{file.string(), {}};
    if (const auto* set = verb.get_option_no_throw("--set")) argument.set = set->results();
    Workflow workflow = argument.read();
    check_steps(workflow);
    NothingKnown nothing;
    const Plan plan = make_plan(std::move(workflow), Profile{}, {}, nothing, session.store());
    const TemporaryFolder folder(fs::temp_directory_path() / "dlflow-host");
    const Bundle bundle = collect(plan, {.with_data = send_data}, session.store());
    const Manifest manifest = write_bundle(bundle, folder.path() / name);
    const auto* profile = verb.get_option_no_throw("--profile");
    if (!session.quiet && verb.get_name() == "run" && profile->count() == 0) {
      std::fprintf(stderr, "note: without --profile the steps run on %s itself\n",
                   host.name().c_str());
    }
    if (!session.quiet) name_what_stays(manifest, bundle, plan.base, host.name());
    return host.send(folder.path() / name, name);
  }
};

/// Why a verb is of no use on another machine; nullptr if it is.
const char* only_here(const CLI::App& verb) {
  constexpr const char* kFiles = "it reads and writes files here; run what it writes with --host";
  constexpr const char* kSame = "it prints the same everywhere";
  static const std::map<std::string, const char*> reasons = {
      {"dlflow init", kFiles}, {"dlflow model import", kFiles}, {"dlflow completion", kSame},
      {"dlflow help", kSame},  {"dlflow man", kSame},           {"dlflow schema", kSame}};
  const auto found = reasons.find(command_words(verb));
  return found == reasons.end() ? nullptr : found->second;
}

/// Throws unless `host` can be a name for ssh, not one of its options.
void check(const std::string& option, const std::string& host) {
  const bool plain = std::ranges::all_of(host, [](unsigned char c) { return c > ' ' && c < 0x7F; });
  if (!host.empty() && host.front() != '-' && plain) return;
  throw UsageError(option + ": '" + host + "' is not a name for ssh; write user@login.example.org");
}

/// The option of a verb that names a file to write here. Throws if its value is missing: the
/// default name is known only on the host.
const CLI::Option* output_here(const CLI::App& verb, bool as_json) {
  const std::string& name = verb.get_name();
  if (name != "pack" && (name != "report" || as_json)) return nullptr;
  const CLI::Option* option = verb.get_option("--output");
  if (option->count() > 0 && !as_json) return option;
  throw UsageError("with --host, `dlflow " + name +
                   "` needs -o FILE, to write here, and no --json");
}

/// Returns a script that runs `command` there with this program, if it is there. An output file
/// $o is printed and removed.
std::string script_of(const std::string& command, bool has_output) {
  const fs::path own = this_program();
  const std::string folder = kRemoteFolder;
  return "p=./" + folder + "/" + short_hash(own) +
         "/dlflow; [ -x \"$p\" ] && [ \"$(wc -c < \"$p\")\" -eq " +
         std::to_string(fs::file_size(own)) + " ] || exit " + std::to_string(kNoProgram) + "; " +
         kPrintMark + "unset " + kHostVariable + "; " +
         (has_output ? "o=" + folder + "/$$; \"$p\" " + command +
                           " >&2 && cat \"$o\"; s=$?; rm -f \"$o\"; exit $s"
                     : "exec \"$p\" " + command);
}

int run_on_host(const CLI::App& verb, Session& session, const HostArguments& arguments) {
  const Host host(arguments.host);
  const CLI::Option* output = output_here(verb, session.json);
  const std::string command = RemoteCommand{session, host, verb, arguments.send}.make(output);
  const std::string script = script_of(command, output != nullptr);
  const bool terminal = output == nullptr && is_terminal(0) && is_terminal(1);
  const fs::path input = verb.get_name() == "shell" && !terminal ? "/dev/stdin" : "";
  const auto send_program = [&host] { host.send(this_program(), "dlflow", true); };
  if (!input.empty()) send_program();  // a second attempt would find no input
  const auto run_there = [&](std::FILE* file) {
    if (const auto status = host.run(script, input, file, terminal)) return *status;
    send_program();
    if (const auto status = host.run(script, input, file, terminal)) return *status;
    throw Error(Errc::Unavailable, host.name() + " does not keep files in ~/" + kRemoteFolder);
  };
  if (output == nullptr) return run_there(stdout);
  const fs::path target = output->results().back();
  const TemporaryFolder folder(fs::temp_directory_path() / "dlflow-host");
  const fs::path answer = folder.path() / "answer";
  const Handle<std::FILE, std::fclose> file(std::fopen(answer.c_str(), "wbe"));
  if (!file) throw_errno("cannot write " + answer.string(), errno);
  const int status = run_there(file.get());
  if (std::ferror(file.get()) != 0) throw_errno("cannot write " + answer.string(), ENOSPC);
  if (status != 0) return status;
  copy_content(answer, target);
  if (!session.quiet) std::printf("%s is written, from %s.\n", target.c_str(), host.name().c_str());
  return status;
}

/// Tells the user that the commands that the host printed lack --host.
void explain_hints(const CLI::App& verb, const Session& session, const std::string& host) {
  const std::string& name = verb.get_name();
  const bool prints_commands = name == "run" || name == "resubmit" || name == "status";
  if (!prints_commands || session.quiet || session.json) return;
  std::fprintf(stderr, "note: commands in this output need --host %s; `export %s=%s` adds it\n",
               shell_quote(host).c_str(), kHostVariable, shell_quote(host).c_str());
}

}  // namespace

void add_host_options(CLI::App& app, Session& session) {
  const auto arguments = std::make_shared<HostArguments>();
  CLI::Option* const host = add_value(app, "--host", "USER@LOGIN", arguments->host,
                                      "run the command on LOGIN, over ssh; dlflow is copied there");
  app.add_flag("--send", arguments->send, "with --host: send the data that steps read, too");
  app.parse_complete_callback([arguments, host, &app, &session] {
    CLI::App* verb = &app;
    while (!verb->get_subcommands().empty()) verb = verb->get_subcommands().front();
    const char* const reason = only_here(*verb);
    const bool is_named = host->count() > 0;
    if (!is_named && reason == nullptr) arguments->host = environment_variable(kHostVariable);
    if (!is_named && arguments->host.empty()) {
      if (arguments->send) throw UsageError("--send needs --host");
      return;
    }
    check(is_named ? "--host" : kHostVariable, arguments->host);
    if (reason != nullptr) {
      throw UsageError("--host is not for `" + command_words(*verb) + "`: " + reason);
    }
    verb->callback([arguments, verb, is_named, &session] {
      session.status = run_on_host(*verb, session, *arguments);
      if (is_named) explain_hints(*verb, session, arguments->host);
    });
  });
}

}  // namespace dlflow
