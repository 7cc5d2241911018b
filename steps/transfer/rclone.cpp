#include "steps/transfer/rclone.h"

#include <array>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/parse_json.h"
#include "base/text.h"
#include "steps/transfer/listed_names.h"
#include "steps/transfer/tool.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;

constexpr int kNoSuchFolder = 3;
constexpr int kNoSuchFile = 4;

std::string rclone_path(const Address& address) { return address.host + ":" + address.place.path; }

/// One call of rclone, without its retries, since only our code sees whether a try made progress.
/// Prints errors only: without settings, rclone first prints a notice that its file is missing.
ToolResult rclone(std::vector<std::string> arguments, const fs::path& temporary,
                  const ToolWatch& watch = {}, const fs::path& output = {}) {
  Tool tool{.argv = {"rclone", "--retries=1", "--contimeout=30s", "--timeout=60s",
                     "--ask-password=false", "--log-level=ERROR"},
            .temporary = temporary,
            .standard_output = output};
  for (std::string& argument : arguments) tool.argv.push_back(std::move(argument));
  return run_tool(tool, watch);
}

Error failure(const std::string& what, const Address& address, const ToolResult& result) {
  const Error error = tool_error("cannot " + what + " " + address.display(), result);
  const bool is_missing = result.exit_status == kNoSuchFolder || result.exit_status == kNoSuchFile;
  return is_missing ? Error(Errc::NotFound, error.what()) : error;
}

std::string limit(uint64_t bytes_per_second) {
  return "--bwlimit=" + (bytes_per_second == 0 ? "off" : std::to_string(bytes_per_second) + "B");
}

Json parse(const ToolResult& result, const Address& address) {
  constexpr JsonLimits kLimits{.max_depth = 64, .max_bytes = size_t{1} << 30};  // millions of files
  Json json = parse_json(result.output, kLimits);
  if (json.is_discarded()) {
    throw Error(
        Errc::InvalidInput,
        address.display() + ": this rclone is too old to list files as JSON; use 1.60 or newer");
  }
  return json;
}

RemoteFile file_from(const Json& entry) {
  RemoteFile file{.name = entry.value("Path", "")};
  const int64_t bytes = entry.value("Size", int64_t{-1});
  if (bytes >= 0) file.bytes = uint64_t(bytes);
  const std::string time = entry.value("ModTime", "");
  if (file.bytes && !time.empty()) file.version = std::to_string(bytes) + " " + time;
  return file;
}

/// The file at the address, with its hashes; nothing if there is none.
std::optional<Json> stat(const Address& address, const fs::path& temporary) {
  const ToolResult result = rclone({"lsjson", "--stat", "--no-mimetype", "--hash-type=sha256",
                                    "--hash-type=sha1", "--hash-type=md5", rclone_path(address)},
                                   temporary);
  if (result.exit_status == kNoSuchFolder || result.exit_status == kNoSuchFile) return std::nullopt;
  if (result.exit_status != 0) throw failure("ask for", address, result);
  Json entry = parse(result, address);
  if (!entry.is_object() || entry.value("IsDir", false)) return std::nullopt;
  return entry;
}

enum class Comparison { Differs, SameSize, SameContent };

/// Compares the strongest hash that the remote has. Returns `SameSize` if it has none.
/// \param sha256  of `file`; empty: rclone computes it
Comparison compare(const std::optional<Json>& there, const fs::path& file,
                   const std::string& sha256, const fs::path& temporary) {
  if (!there || there->value("Size", int64_t{-1}) != int64_t(fs::file_size(file))) {
    return Comparison::Differs;
  }
  const Json hashes = there->value("Hashes", Json::object());
  for (const char* kind : {"sha256", "sha1", "md5"}) {
    const std::string hash = hashes.value(kind, "");
    if (hash.empty()) continue;
    std::string own = sha256;
    if (own.empty() || std::string_view(kind) != "sha256") {
      const ToolResult result = rclone({"hashsum", kind, file}, temporary);
      if (result.exit_status != 0) throw tool_error("cannot hash " + file.string(), result);
      own = result.output.substr(0, result.output.find(' '));
    }
    return own == hash ? Comparison::SameContent : Comparison::Differs;
  }
  return Comparison::SameSize;
}

/// The bytes sent so far, from the log's last line.
uint64_t bytes_in_log(const std::string& log) {
  const size_t last = log.rfind("{\"level\"");
  if (last == std::string::npos) return 0;
  const Json line = parse_json(log.substr(last, log.find('\n', last) - last));
  if (!line.is_object() || !line.contains("stats")) return 0;
  return line["stats"].value("bytes", uint64_t{0});
}

/// The errors in a log of JSON lines, as text.
std::string errors_in(const std::string& log) {
  std::string errors;
  for (const std::string& text : split(log, '\n')) {
    const Json line = parse_json(text);
    if (!line.is_object()) {
      errors += text + "\n";
    } else if (line.value("level", "") == "error") {
      errors += line.value("msg", "") + "\n";
    }
  }
  return errors;
}

void send(const UploadRequest& request, const Address& to, const fs::path& temporary) {
  ToolResult sent = rclone(
      {"copyto", "--ignore-times", "--use-json-log", "--log-level=NOTICE", "--stats=500ms",
       "--stats-log-level=NOTICE", limit(request.bytes_per_second), request.file, rclone_path(to)},
      temporary, [&](const ToolResult& so_far) { request.progress(bytes_in_log(so_far.message)); });
  sent.message = errors_in(sent.message);
  if (sent.exit_status != 0) throw failure("send to", request.address, sent);
}

/// Both parts had the same size and time, but may still be of different contents.
void check_joined(const DownloadRequest& request, Partial& partial, const fs::path& temporary) {
  const auto there = stat(request.address, temporary);
  if (compare(there, request.partial, "", temporary) != Comparison::Differs) return;
  partial.discard();
  throw Error(Errc::Unavailable, request.address.display() + " changed while it was downloaded");
}

}  // namespace

std::vector<RemoteFile> rclone_list(const Address& address, const fs::path& temporary) {
  std::vector<std::string> arguments = {"lsjson", "--no-mimetype"};
  if (address.place.is_file()) {
    arguments.emplace_back("--stat");
  } else {
    arguments.emplace_back("--files-only");
    if (address.place.is_folder) arguments.emplace_back("--recursive");
  }
  arguments.push_back(rclone_path(address));
  const ToolResult result = rclone(arguments, temporary);
  if (result.exit_status != 0) throw failure("list", address, result);
  const Json json = parse(result, address);
  if (json.is_object() && json.value("IsDir", false)) {
    throw Error(Errc::InvalidInput,  // object stores report any missing file as a folder
                address.display() +
                    ": there is no such file; if it is a folder, add a / at the end to take all "
                    "files in it");
  }
  std::vector<RemoteFile> files;
  for (const Json& entry : json.is_array() ? json : Json::array({json})) {
    if (entry.is_object()) files.push_back(file_from(entry));
  }
  return named_files(address, std::move(files));
}

bool rclone_has_known_content(const DownloadRequest& request, const fs::path& temporary) {
  const Comparison comparison = compare(stat(request.address, temporary), request.known_file,
                                        request.known_sha256, temporary);
  return comparison == Comparison::SameContent;
}

Downloaded rclone_download(const DownloadRequest& request, Partial& partial,
                           const fs::path& temporary, const RetryPolicy& retry) {
  const std::optional<uint64_t> total_bytes = request.listed.bytes;
  const std::string& version = request.listed.version;
  if (!partial.version().empty() && partial.version() != version) partial.discard();
  bool continued = false;
  const auto attempt = [&] {
    partial.drop_unknown();
    if (total_bytes && partial.bytes() > *total_bytes) partial.discard();
    partial.belongs_to(version);
    const uint64_t offset = partial.bytes();
    continued = continued || offset > 0;
    if (offset > 0 && offset == total_bytes) return check_joined(request, partial, temporary);
    const ToolResult result = rclone(
        {"cat", "--offset=" + std::to_string(offset), limit(request.bytes_per_second),
         rclone_path(request.address)},
        temporary, [&](const ToolResult&) { request.progress(partial.bytes(), total_bytes); },
        request.partial);
    if (result.exit_status != 0) throw failure("download", request.address, result);
    if (total_bytes && partial.bytes() != *total_bytes) {
      throw Error(Errc::Unavailable, "cannot download " + request.address.display() + ": " +
                                         std::to_string(partial.bytes()) + " bytes arrived, but " +
                                         std::to_string(*total_bytes) + " were announced");
    }
    if (offset > 0) check_joined(request, partial, temporary);
  };
  with_retries(
      retry, [&] { return partial.bytes(); }, attempt);
  return {.version = version, .continued = continued};
}

bool rclone_can_rename(const Address& address, const fs::path& temporary) {
  const ToolResult result = rclone({"backend", "features", address.host + ":"}, temporary);
  if (result.exit_status != 0) throw failure("ask for", address, result);
  return parse(result, address).value("Features", Json::object()).value("Move", false);
}

Uploaded rclone_upload(const UploadRequest& request, const fs::path& temporary) {
  const auto there = [&](const Address& address) {
    return compare(stat(address, temporary), request.file, request.sha256, temporary);
  };
  if (there(request.address) == Comparison::SameContent) return Uploaded::AlreadyThere;
  Address part = request.address;
  if (request.can_rename) part.place.path += ".dlflow-part";
  send(request, part, temporary);
  if (there(part) == Comparison::Differs) {
    throw Error(Errc::Unavailable,
                request.address.display() + " does not match what was sent to it");
  }
  if (request.can_rename) {
    const ToolResult moved =
        rclone({"moveto", rclone_path(part), rclone_path(request.address)}, temporary);
    if (moved.exit_status != 0) throw failure("rename to", request.address, moved);
  }
  return Uploaded::Sent;
}

}  // namespace dlflow::steps
