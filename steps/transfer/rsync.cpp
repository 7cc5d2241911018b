#include "steps/transfer/rsync.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"
#include "steps/environment/step_environment.h"
#include "steps/transfer/listed_names.h"
#include "steps/transfer/tool.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;

/// The remote shell for rsync. Detects a dead peer within a minute.
std::string remote_shell(const Address& address) {
  const std::string own = environment_variable("RSYNC_RSH");
  std::string shell = own.empty() ? "ssh" : own;
  shell +=
      " -o BatchMode=yes -o LogLevel=ERROR -o ConnectTimeout=30"
      " -o ServerAliveInterval=15 -o ServerAliveCountMax=4";
  if (address.port > 0) shell += " -p " + std::to_string(address.port);
  return shell;
}

/// "HOST:PATH" for rsync, which would take a path that starts with ':' as a daemon's module.
std::string remote_path(const Address& address) {
  const std::string& path = address.place.path;
  const bool needs_folder = path.empty() || path.starts_with(':');
  return address.host + ":" + (needs_folder ? "./" + path : path);
}

/// The arguments common to all calls. --protect-args: no remote shell interprets the paths.
std::vector<std::string> command(const Address& address, uint64_t bytes_per_second) {
  std::vector<std::string> argv = {"rsync", "--protect-args", "--copy-links", "--timeout=60",
                                   "--rsh=" + remote_shell(address)};
  if (bytes_per_second > 0) {
    argv.push_back("--bwlimit=" + std::to_string(std::max<uint64_t>(bytes_per_second / 1024, 1)));
  }
  return argv;
}

constexpr const char* kListingFormat = "--out-format=%i %l %M %B %n";

/// ">f+++++++++ 1234 2026/01/31-12:00:00 rwxr-xr-x a name" -> the file; nothing for other lines.
std::optional<RemoteFile> parse_line(const std::string& line, const Address& address) {
  if (line.starts_with("skipping ")) {
    throw Error(Errc::InvalidInput, address.display() + ": only files are staged, and there is a " +
                                        line.substr(9) +
                                        "; add a / at the end to take all files in a folder");
  }
  if (!line.starts_with(">f")) return std::nullopt;
  std::vector<std::string> fields;
  size_t begin = 0;
  for (int i = 0; i < 4; ++i) {
    const size_t space = line.find(' ', begin);
    if (space == std::string::npos) return std::nullopt;
    fields.push_back(line.substr(begin, space - begin));
    begin = space + 1;
  }
  return RemoteFile{.name = line.substr(begin),
                    .bytes = std::strtoull(fields[1].c_str(), nullptr, 10),
                    .version = fields[1] + " " + fields[2],
                    .executable = fields[3].find('x') != std::string::npos};
}

/// The bytes sent so far: the first number of rsync's last progress line.
uint64_t sent_bytes(const std::string& output) {
  const size_t last = output.rfind('\r');
  if (last == std::string::npos) return 0;
  return std::strtoull(output.c_str() + last + 1, nullptr, 10);
}

}  // namespace

std::vector<RemoteFile> rsync_list(const Address& address, const fs::path& temporary) {
  const UrlPath& place = address.place;
  std::vector<std::string> argv = command(address, 0);
  argv.insert(argv.end(), {"--dry-run", "--8-bit-output", kListingFormat});
  if (!place.is_file()) argv.emplace_back(place.is_folder ? "--recursive" : "--dirs");
  argv.push_back(remote_path(address) + (place.is_file() ? "" : "/"));
  argv.push_back(temporary.string() + ".none");  // does not exist, so rsync lists all files
  const ToolResult result =
      run_tool({.argv = argv, .temporary = temporary, .environment = {"TZ=UTC"}});
  if (result.exit_status != 0) throw tool_error("cannot list " + address.display(), result);
  std::vector<RemoteFile> files;
  for (const std::string& line : split(result.output, '\n')) {
    if (auto file = parse_line(line, address)) files.push_back(std::move(*file));
  }
  return named_files(address, std::move(files));
}

bool rsync_has_known_content(const DownloadRequest& request, const fs::path& temporary) {
  std::vector<std::string> argv = command(request.address, 0);
  argv.insert(argv.end(), {"--dry-run", "--checksum", "--out-format=differs",
                           remote_path(request.address), request.known_file});
  const ToolResult compared = run_tool({.argv = argv, .temporary = temporary});
  return compared.exit_status == 0 && compared.output.find("differs") == std::string::npos;
}

Downloaded rsync_download(const DownloadRequest& request, const Partial& partial,
                          const fs::path& temporary, const RetryPolicy& retry) {
  std::vector<std::string> argv = command(request.address, request.bytes_per_second);
  // --inplace: a kill leaves the received part. --ignore-times: a file with the right size and time
  // may still have holes.
  argv.insert(argv.end(), {"--inplace", "--ignore-times", "--chmod=F600",
                           remote_path(request.address), request.partial});
  with_retries(
      retry, [&] { return partial.bytes(); },
      [&] {
        const ToolResult result = run_tool(
            {.argv = argv, .temporary = temporary},
            [&](const ToolResult&) { request.progress(partial.bytes(), request.listed.bytes); });
        if (result.exit_status != 0) {
          throw tool_error("cannot download " + request.address.display(), result);
        }
      });
  return {.version = request.listed.version};
}

Uploaded rsync_upload(const UploadRequest& request, const fs::path& temporary) {
  // --checksum compares contents, not times. --partial-dir: the file gets its name once complete.
  const std::vector<std::string> ends = {request.file, remote_path(request.address)};
  std::vector<std::string> send = command(request.address, request.bytes_per_second);
  send.insert(send.end(), {"--checksum", "--partial-dir=.dlflow-partial", "--mkpath",
                           "--info=progress2", "--no-human-readable", "--out-format=sent"});
  send.insert(send.end(), ends.begin(), ends.end());
  const ToolResult sent =
      run_tool({.argv = send, .temporary = temporary},
               [&](const ToolResult& so_far) { request.progress(sent_bytes(so_far.output)); });
  if (sent.exit_status != 0) throw tool_error("cannot send to " + request.address.display(), sent);
  if (sent.output.find("sent\n") == std::string::npos) return Uploaded::AlreadyThere;

  std::vector<std::string> compare = command(request.address, 0);
  compare.insert(compare.end(), {"--dry-run", "--checksum", "--out-format=differs"});
  compare.insert(compare.end(), ends.begin(), ends.end());
  const ToolResult compared = run_tool({.argv = compare, .temporary = temporary});
  if (compared.exit_status != 0) {
    throw tool_error("cannot verify " + request.address.display(), compared);
  }
  if (compared.output.find("differs") != std::string::npos) {
    throw Error(Errc::Unavailable,
                request.address.display() + " does not match what was sent to it");
  }
  return Uploaded::Sent;
}

}  // namespace dlflow::steps
