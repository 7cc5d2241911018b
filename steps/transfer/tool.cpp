#include "steps/transfer/tool.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>

#include "base/file.h"
#include "base/process.h"
#include "base/text.h"
#include "steps/transfer/stop_signal.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// Tools' messages for permanent failures, with advice.
struct Meaning {
  const char* words;
  Errc code;
  const char* advice;
};
constexpr Meaning kMeanings[] = {
    {"Host key verification failed", Errc::InvalidInput,
     "; log in once with ssh, so that the host's key is known"},
    {"rsync: not found", Errc::NotFound, "; rsync must be installed on that host, too"},
    {"rsync: command not found", Errc::NotFound, "; rsync must be installed on that host, too"},
    {"Permission denied (", Errc::InvalidInput,
     "; log in without a password must work: ssh -o BatchMode=yes HOST"},
    {"didn't find section in config file", Errc::InvalidInput,
     "; `rclone listremotes` prints the names"},
    {"No space left", Errc::InvalidInput, ""},
    {"ermission denied", Errc::InvalidInput, ""},
    {"AccessDenied", Errc::InvalidInput, ""},
    {"uthentication failed", Errc::InvalidInput, ""},
    {"could not read Username", Errc::InvalidInput, "; git must find a name and password itself"},
    {"dubious ownership", Errc::InvalidInput, ""},
    {"is corrupt", Errc::Corrupt, ""},
    {"unknown option", Errc::InvalidInput, "; the program is too old"},
    {"unknown flag", Errc::InvalidInput, "; the program is too old"},
    {"No such file or directory", Errc::NotFound, ""},
    {"has no referent", Errc::NotFound, ""},
    {"not found", Errc::NotFound, ""},
    {"does not exist", Errc::NotFound, ""},
    {"not appear to be a git repository", Errc::NotFound, ""},
};

/// A process and its group. The destructor, or the end of this process, kills them.
class Running {
 public:
  explicit Running(const Command& command) : pid_(start(command)) {}
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    if (ended_) return;
    ::kill(-pid_, SIGKILL);
    try {
      wait_for(pid_);
    } catch (const Error&) {
      // A destructor must not throw, and there is no process to wait for then.
    }
  }

  std::optional<ExitStatus> wait(std::chrono::milliseconds limit) {
    const auto status = wait_for(pid_, limit);
    ended_ = status.has_value();
    return status;
  }

 private:
  pid_t pid_;
  bool ended_ = false;
};

Error missing(const std::string& program) {
  return Error(Errc::NotFound,
               "the program '" + program +
                   "' is needed, but it is not in PATH; install it, or load its module in "
                   "the profile's setup:");
}

std::string content_of(const fs::path& file) { return read_file_if_exists(file).value_or(""); }

/// The first line that contains `words`: lines after the cause only repeat that there was an error.
std::string line_with(const std::string& words, const std::string& text) {
  for (const std::string& line : split(text, '\n')) {
    if (!trim(line).empty() && line.find(words) != std::string::npos) {
      return std::string(trim(line));
    }
  }
  return "";
}

}  // namespace

ToolResult run_tool(const Tool& tool, const ToolWatch& watch) {
  const fs::path output = tool.temporary.string() + ".output";
  const fs::path messages = tool.temporary.string() + ".messages";
  std::error_code ignored;
  for (const fs::path& file : {output, messages}) fs::remove(file, ignored);
  std::vector<std::string> environment = tool.environment;  // the first of two equal names counts
  for (std::string& variable : current_environment()) environment.push_back(std::move(variable));
  // dies_with_parent: a kill -9 of this process frees its lock, so its tool must not write on.
  Command command{.argv = tool.argv,
                  .environment = std::move(environment),
                  .standard_output = tool.standard_output.empty() ? output : tool.standard_output,
                  .standard_error = messages,
                  .own_group = true,
                  .dies_with_parent = true};
  std::optional<Running> running;
  try {
    running.emplace(command);
  } catch (const Error& error) {
    if (error.code() == Errc::NotFound) throw missing(tool.argv.front());
    throw;
  }
  ToolResult result;
  for (std::optional<ExitStatus> status; !status;) {
    status = running->wait(20ms);
    throw_if_stopped();
    if (!status && !watch) continue;
    if (status) result.exit_status = status->code;
    result.output = content_of(output);
    result.message = trim(content_of(messages));
    if (watch) watch(result);
  }
  return result;
}

Error tool_error(const std::string& what, const ToolResult& result) {
  const auto* const meaning =
      std::find_if(std::begin(kMeanings), std::end(kMeanings), [&](const Meaning& candidate) {
        return result.message.find(candidate.words) != std::string::npos;
      });
  if (meaning != std::end(kMeanings)) {
    return Error(meaning->code,
                 what + ": " + line_with(meaning->words, result.message) + meaning->advice);
  }
  const std::string cause = line_with("", result.message);
  return Error(
      Errc::Unavailable,
      what + ": " + (cause.empty() ? "exit status " + std::to_string(result.exit_status) : cause));
}

}  // namespace dlflow::steps
