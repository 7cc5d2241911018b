#include "steps/stage_out/stage_out.h"

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/local_files.h"
#include "base/output_file.h"
#include "base/remove_tree.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/units.h"
#include "steps/environment/step_environment.h"
#include "steps/transfer/limits.h"
#include "steps/transfer/parallel.h"
#include "steps/transfer/progress.h"
#include "steps/transfer/stop_signal.h"
#include "steps/transfer/upload.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;

/// The step's `with:`.
struct StageOutRequest {
  std::vector<fs::path> from;
  Address to;
  TransferLimits limits;
};

struct Result {
  fs::path file;
  uint64_t bytes = 0;
  std::string sha256 = {};
};

/// Keyed by the name below the destination.
using Results = std::map<std::string, Result>;

StageOutRequest parse_stage_out(const Json& with) {
  StageOutRequest request;
  const Json from = with.value("from", Json());
  for (const Json& path : from.is_array() ? from : Json::array({from})) {
    if (!path.is_string())
      throw Error(Errc::InvalidInput, "from: must be a path, or a list of paths");
    request.from.emplace_back(path.get<std::string>());
  }
  std::string to = with.value("to", "");
  if (!to.ends_with('/')) to += '/';  // always a folder
  request.to = parse_address(to);
  const Scheme scheme = request.to.scheme;
  if (scheme == Scheme::Http || scheme == Scheme::Git || scheme == Scheme::Hub) {
    throw Error(Errc::InvalidInput,
                "to: " + request.to.display() +
                    " cannot be written to; give a file://, ssh://, rclone://, s3:// or gs:// "
                    "address");
  }
  request.limits = parse_limits(with);
  return request;
}

/// Files keep their names; those of a folder go below its name, as with `cp -r FROM TO/`.
Results list_results(const std::vector<fs::path>& from) {
  Results results;
  for (const fs::path& path : from) {
    const fs::path whole = fs::path(path.string() + "/").parent_path();  // without a final '/'
    const std::string own = whole.filename().string();
    const UrlPath place{whole.string(), fs::is_directory(whole), ""};
    for (const LocalFile& file : list_local_files(place)) {
      const std::string name = file.name.empty() ? own : own + "/" + file.name;
      if (!results.emplace(name, Result{file.path, fs::file_size(file.path)}).second) {
        throw Error(Errc::InvalidInput,
                    "from: two of the files are called '" + name + "'; send them to two places");
      }
    }
  }
  return results;
}

/// Sends the missing files and returns their number. Sets the hash of each result.
size_t send_all(const StageOutRequest& request, Results& results, const fs::path& temporary,
                Progress& progress) {
  std::vector<Results::value_type*> files;
  for (Results::value_type& result : results) {
    progress.set_total(files.size(), result.second.bytes);
    files.push_back(&result);
  }
  const bool renames = can_rename(request.to, temporary / "features");
  std::atomic<size_t> num_sent = 0;
  for_each_parallel(files.size(), request.limits.threads(files.size()), [&](size_t i) {
    auto& [name, result] = *files[i];
    result.sha256 = sha256_file(result.file, [](uint64_t) { throw_if_stopped(); });
    const Uploaded uploaded =
        upload({.file = result.file,
                .sha256 = result.sha256,
                .bytes = result.bytes,
                .address = file_in(request.to, name),
                .can_rename = renames,
                .bytes_per_second = request.limits.share(files.size()),
                .progress = [&](uint64_t bytes) { progress.set_done(i, bytes); }},
               temporary / std::to_string(i), RetryPolicy{});
    progress.complete(i);
    if (uploaded == Uploaded::Sent) ++num_sent;
    std::printf("%s: %s\n", escaped(name).c_str(),
                uploaded == Uploaded::Sent ? format_size(result.bytes).c_str() : "already exists");
    std::fflush(stdout);
  });
  return num_sent;
}

/// Lists the results in the format of sha256sum, usable as the manifest of a `stage` step.
void write_manifest(const Results& results, const fs::path& path) {
  std::string text;
  for (const auto& [name, result] : results) {
    const std::string escaped_name = name_in_line(name);
    text += (escaped_name == name ? "" : "\\") + result.sha256 + "  " + escaped_name + "\n";
  }
  write_output(path, text);
}

/// A folder for files of the tools, removed with this object.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(fs::path path) : path_(std::move(path)) { make_directories(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    remove_tree(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void stage_out() {
  const StepEnvironment environment = read_step_environment();
  const StageOutRequest request = parse_stage_out(environment.with);
  Results results = list_results(request.from);
  const TemporaryFolder temporary(environment.outputs / ".sending");
  Progress progress(environment.metrics, results.size());
  const size_t num_sent = send_all(request, results, temporary.path(), progress);

  write_manifest(results, environment.outputs / "SHA256SUMS");
  uint64_t bytes = 0;
  for (const auto& [name, result] : results) bytes += result.bytes;
  write_outputs(environment, {{"manifest", "SHA256SUMS"}});
  write_summary(environment, {{"bytes", bytes}, {"files", results.size()}, {"sent", num_sent}});
  const std::string files =
      format_count(results.size()) + (results.size() == 1 ? " file" : " files");
  progress.finish(num_sent == results.size() ? files + " sent"
                                             : format_count(num_sent) + " of " + files +
                                                   " sent, the others were already there");
}

}  // namespace

int stage_out_main() { return run_transfer_step(stage_out, "what was sent"); }

}  // namespace dlflow::steps
