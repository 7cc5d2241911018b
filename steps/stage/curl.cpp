#include "steps/stage/curl.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>

#include "base/file.h"
#include "base/process.h"
#include "base/text.h"
#include "steps/stage/stop_signal.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr int kHttpError = 22;

/// The exit statuses of curl(1), EXIT CODES, that a download can end with.
struct Meaning {
  int exit_status;
  Errc code;
  const char* words;
};
constexpr Meaning kMeanings[] = {
    {1, Errc::InvalidInput, "this curl does not know the protocol"},
    {3, Errc::InvalidInput, "the address is malformed"},
    {5, Errc::Unavailable, "the proxy's name is not known"},
    {6, Errc::Unavailable, "the host's name is not known"},
    {7, Errc::Unavailable, "the host refuses connections"},
    {18, Errc::Unavailable, "the connection ended before all had arrived"},
    {23, Errc::InvalidInput, "the file cannot be written; is the disk full?"},
    {28, Errc::Unavailable, "the host does not answer, or too slowly"},
    {35, Errc::Unavailable, "no encrypted connection could be made"},
    {47, Errc::InvalidInput, "there are too many redirects"},
    {52, Errc::Unavailable, "the host sent nothing"},
    {55, Errc::Unavailable, "the connection broke"},
    {56, Errc::Unavailable, "the connection broke"},
    {60, Errc::InvalidInput, "the host's certificate is not trusted"},
    {92, Errc::Unavailable, "the connection broke"},
};

Error http_error(int status, const std::string& url) {
  const std::string code = "the server answers " + std::to_string(status);
  const std::string where = "cannot download " + url + ": ";
  if (status == 404 || status == 410) {
    return Error(Errc::NotFound, where + code + ", there is no such file");
  }
  if (status == 401 || status == 403) {
    return Error(Errc::InvalidInput, where + code + ", it does not allow it");
  }
  const bool transient = status == 408 || status == 429 || status >= 500 || status == 0;
  return Error(transient ? Errc::Unavailable : Errc::InvalidInput, where + code);
}

/// A process that ends with this object at the latest, and with this process.
class Running {
 public:
  explicit Running(const Command& command) : pid_(start(command)) {}
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    if (status_) return;
    ::kill(pid_, SIGKILL);
    try {
      wait_for(pid_);
    } catch (const Error&) {
      // Nothing may leave a destructor; there is nobody to wait for then.
    }
  }

  std::optional<ExitStatus> poll() {
    if (!status_) status_ = poll_exit(pid_);
    return status_;
  }

 private:
  pid_t pid_;
  std::optional<ExitStatus> status_;
};

std::string content_of(const fs::path& file) { return read_file_if_exists(file).value_or(""); }

}  // namespace

CurlResult run_curl(const std::vector<std::string>& arguments, const fs::path& temporary,
                    const std::function<void(const HttpResponse&)>& watch) {
  const fs::path headers = temporary.string() + ".headers";
  const fs::path messages = temporary.string() + ".messages";
  std::error_code ignored;
  for (const fs::path& file : {headers, messages}) fs::remove(file, ignored);
  // --disable: a ~/.curlrc made for people would change what the arguments below mean. Proxies are
  // taken from http_proxy and its like.
  std::vector<std::string> argv = {"curl",
                                   "--disable",
                                   "--silent",
                                   "--show-error",
                                   "--fail",
                                   "--location",
                                   "--max-redirs",
                                   "10",
                                   "--proto",
                                   "=http,https",
                                   "--proto-redir",
                                   "=http,https",
                                   "--globoff",
                                   "--connect-timeout",
                                   "30",
                                   "--speed-limit",
                                   "1",
                                   "--speed-time",
                                   "60",
                                   "--dump-header",
                                   headers};
  argv.insert(argv.end(), arguments.begin(), arguments.end());

  CurlResult result;
  // A download that outlived a kill -9 of this process would write on after its lock was released.
  Running curl({.argv = argv,
                .environment = current_environment(),
                .directory = {},
                .standard_input = {},
                .standard_output = "/dev/null",
                .standard_error = messages,
                .dies_with_parent = true});
  for (auto status = curl.poll();; status = curl.poll()) {
    throw_if_stopped();
    result.response = parse_response(content_of(headers));
    watch(result.response);
    if (status) {
      result.exit_status = status->code;
      break;
    }
    std::this_thread::sleep_for(20ms);
  }
  result.message = trim(content_of(messages));
  return result;
}

Error curl_error(const CurlResult& result, const std::string& url) {
  if (result.exit_status == kHttpError) return http_error(result.response.status, url);
  const auto meaning = std::find_if(
      std::begin(kMeanings), std::end(kMeanings),
      [&](const Meaning& candidate) { return candidate.exit_status == result.exit_status; });
  const bool known = meaning != std::end(kMeanings);
  return Error(
      known ? meaning->code : Errc::InvalidInput,
      "cannot download " + url + ": " + (known ? meaning->words : "curl failed") + " (" +
          (result.message.empty() ? "curl's exit status is " + std::to_string(result.exit_status)
                                  : result.message) +
          ")");
}

}  // namespace dlflow::steps
