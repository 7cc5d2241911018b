#include "runtime/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <set>

#include "base/file.h"
#include "base/output_file.h"
#include "base/parse_json.h"
#include "base/process.h"
#include "base/remove_tree.h"
#include "base/sha256.h"
#include "base/text.h"
#include "runtime/checkpoint/checkpoint_manifest.h"

namespace dlflow::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr const char* kLatest = "latest";
constexpr const char* kTensors = ".safetensors";

/// In the name of a checkpoint that is not complete yet, or is being removed.
constexpr std::string_view kTemporary = ".tmp.";

std::string folder_name(uint64_t step) {
  char text[32];
  std::snprintf(text, sizeof text, "step-%06llu", static_cast<unsigned long long>(step));
  return text;
}

/// Returns the step of "step-000123"; nothing for any other name.
std::optional<uint64_t> step_of(const fs::path& step_folder) {
  const std::string name = step_folder.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  return number_from<uint64_t>(std::string_view(name).substr(kPrefix.size()));
}

/// Identifies host, boot and namespace, within which a PID is unique at any time.
std::string place_of_numbers() {
  constexpr size_t kDigits = 16;
  std::error_code none;
  const std::string space = fs::read_symlink("/proc/self/ns/pid", none).string();
  return sha256_hex(host_name() + "\n" + boot_id() + "\n" + space).substr(0, kDigits);
}

/// Returns "PLACE-PID-START", which is unique to this process across hosts.
std::string writer_name(pid_t pid, uint64_t start_ticks) {
  return place_of_numbers() + "-" + std::to_string(pid) + "-" + std::to_string(start_ticks);
}

fs::path temporary_beside(const fs::path& path) {
  const auto self = identify(::getpid());
  return path.string() + std::string(kTemporary) +
         writer_name(::getpid(), self ? self->start_ticks : 0);
}

/// Returns the seconds since the last write to anything in `path`.
int64_t seconds_unchanged(const fs::path& path) {
  struct stat info {};
  time_t newest = ::lstat(path.c_str(), &info) == 0 ? info.st_mtime : 0;
  std::error_code none;  // `path` is gone, or no folder
  for (const auto& entry : fs::directory_iterator(path, none)) {
    if (::lstat(entry.path().c_str(), &info) == 0) newest = std::max(newest, info.st_mtime);
  }
  return int64_t(::time(nullptr) - newest);
}

/// Whether the writer of a temporary file is dead. If it is on another host, in another container
/// or of an older version, only time shows this: a live writer writes all the time.
bool is_left_over(const fs::path& path) {
  constexpr int64_t kDeadSeconds = 3600;
  const std::string name = path.filename().string();
  const std::string writer = name.substr(name.rfind(kTemporary) + kTemporary.size());
  const size_t dash = writer.find('-');
  pid_t pid = 0;
  if (dash == writer.npos || writer.substr(0, dash) != place_of_numbers()) {
    return seconds_unchanged(path) > kDeadSeconds;
  }
  std::from_chars(writer.data() + dash + 1, writer.data() + writer.size(), pid);
  const auto process = identify(pid);
  // This process saves once at a time, so its own leftovers were abandoned.
  return pid == ::getpid() || !process ||
         !writer.starts_with(writer_name(pid, process->start_ticks));
}

void rename_or_throw(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw_errno("cannot write " + to.string(), errno);
}

/// Removes what killed writers left, but no file that another process may be writing.
void remove_leftovers(const fs::path& folder) {
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_temporary = name.find(kTemporary) != std::string::npos;
    if (is_temporary && is_left_over(entry.path())) leftovers.push_back(entry.path());
  }
  for (const fs::path& leftover : leftovers) remove_tree(leftover);
}

/// Creates `folder` so that it survives a power cut, with its new parent folders.
void make_lasting_folder(const fs::path& folder) {
  fs::path parent = fs::absolute(folder / "").parent_path();
  std::vector<fs::path> parents;
  do {
    parent = parent.parent_path();
    parents.push_back(parent);
  } while (!fs::exists(parent));
  make_output_folder(folder);
  for (const fs::path& changed : parents) {
    // Folders without write permission are not new.
    if (::access(changed.c_str(), R_OK | W_OK) == 0) sync_directory(changed);
  }
}

/// Compares sizes with the manifest: cheap, and enough to detect a torn checkpoint.
bool looks_whole(const fs::path& step_folder) {
  try {
    for (const auto& [name, file] : read_manifest(step_folder).files) {
      std::error_code error;
      if (fs::file_size(step_folder / name, error) != file.bytes || error) return false;
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

void verify_length(const fs::path& path, const WrittenFile& written) {
  std::error_code error;
  const uint64_t bytes = fs::file_size(path, error);
  if (error) throw Error(Errc::Corrupt, path.string() + " is missing: " + error.message());
  if (bytes != written.bytes) {
    throw Error(Errc::Corrupt, path.string() + " has " + std::to_string(bytes) +
                                   " bytes, but its manifest declares " +
                                   std::to_string(written.bytes));
  }
}

void verify_content(const fs::path& path, const WrittenFile& written) {
  const std::string actual = sha256_file(path);
  if (actual != written.sha256) {
    throw Error(Errc::Corrupt, path.string() + " is damaged: its SHA-256 is " + actual +
                                   ", but its manifest declares " + written.sha256);
  }
}

/// Verifies the lengths of all files, and returns the manifest.
CheckpointManifest verify_lengths(const fs::path& step_folder) {
  CheckpointManifest manifest = read_manifest(step_folder);
  for (const char* name : {kModelFile, kOptimizerFile, kStateFile}) {
    if (!manifest.files.contains(name)) {
      throw Error(Errc::Corrupt, (step_folder / kManifestFile).string() + " does not list " + name);
    }
  }
  for (const auto& [name, written] : manifest.files) verify_length(step_folder / name, written);
  return manifest;
}

CheckpointManifest verify(const fs::path& step_folder) {
  CheckpointManifest manifest = verify_lengths(step_folder);
  for (const auto& [name, written] : manifest.files) verify_content(step_folder / name, written);
  return manifest;
}

bool is_valid(const fs::path& step_folder) {
  try {
    verify(step_folder);
    return true;
  } catch (const Error&) {
    return false;
  }
}

WrittenFile write_text(const fs::path& path, const std::string& text) {
  write_output(path, text, Durability::Synced);
  return {text.size(), sha256_hex(text)};
}

/// Writes all files of a checkpoint into the new folder `target`, the manifest last.
void write_files(const fs::path& target, const CheckpointContent& content) {
  make_output_folder(target);
  const SafetensorsMetadata metadata = {{"epoch", std::to_string(content.info.epoch)},
                                        {"model", content.info.model},
                                        {"step", std::to_string(content.info.step)}};
  CheckpointManifest manifest{.info = content.info, .files = {}};
  manifest.files[kModelFile] = write_safetensors(target / kModelFile, content.model, metadata);
  manifest.files[kOptimizerFile] = write_safetensors(target / kOptimizerFile, content.optimizer);
  for (const auto& [name, tensors] : content.further) {
    manifest.files[name + kTensors] = write_safetensors(target / (name + kTensors), tensors);
  }
  manifest.files[kStateFile] = write_text(target / kStateFile, content.state.dump(2) + "\n");
  write_text(target / kManifestFile, format_manifest(manifest));  // syncs the folder, too
}

/// Makes FOLDER/latest point to `step_folder`, atomically.
void point_latest_to(const fs::path& folder, const fs::path& step_folder) {
  const fs::path link = temporary_beside(folder / kLatest);
  if (::symlink(step_folder.filename().c_str(), link.c_str()) != 0) {
    throw_errno("cannot write " + link.string(), errno);
  }
  rename_or_throw(link, folder / kLatest);
  sync_directory(folder);
}

/// Removes checkpoints older than `newest` and the `keep` - 1 whole ones before it, but not one
/// that these list as the best so far: if the newest proves damaged, training resumes from the one
/// before. Checkpoints beyond `newest` were damaged, or training would not have returned here: they
/// stay for inspection.
void prune(const fs::path& folder, const fs::path& newest, size_t keep) {
  auto folders = list_checkpoints(folder);
  std::reverse(folders.begin(), folders.end());
  std::set<fs::path> best;
  auto at = std::ranges::find(folders, newest);
  for (size_t kept = 0; at != folders.end() && kept < keep; ++at) {
    if (!looks_whole(*at)) continue;
    ++kept;
    const auto step = read_manifest(*at).info.best;
    if (step) best.insert(checkpoint_folder(folder, *step));
  }
  for (; at != folders.end(); ++at) {
    if (!best.contains(*at)) remove_checkpoint(*at);
  }
}

}  // namespace

fs::path save_checkpoint(const fs::path& folder, const CheckpointContent& content, size_t keep) {
  if (keep < 1) throw Error(Errc::InvalidInput, "at least 1 checkpoint must be kept, not 0");
  fs::path target = folder / folder_name(content.info.step);
  if (!fs::is_symlink(folder / kLatest)) make_lasting_folder(folder);  // `folder` may be new
  remove_leftovers(folder);
  if (!is_valid(target)) {
    remove_checkpoint(target);
    const fs::path temporary = temporary_beside(target);
    try {
      write_files(temporary, content);
      rename_or_throw(temporary, target);
    } catch (...) {
      std::error_code ignored;
      remove_tree(temporary, ignored);
      throw;
    }
    sync_directory(folder);
  }
  point_latest_to(folder, target);
  prune(folder, target, keep);
  return target;
}

fs::path checkpoint_folder(const fs::path& folder, uint64_t step) {
  return folder / folder_name(step);
}

CheckpointInfo verify_checkpoint(const fs::path& step_folder) { return verify(step_folder).info; }

CheckpointInfo read_checkpoint_info(const fs::path& step_folder) {
  return read_manifest(step_folder).info;
}

Checkpoint load_checkpoint(const fs::path& step_folder) {
  verify(step_folder);
  return map_checkpoint(step_folder);
}

CheckpointFiles checkpoint_files(const fs::path& step_folder) {
  CheckpointFiles files;
  for (const auto& [name, written] : read_manifest(step_folder).files) {
    files.paths.push_back(step_folder / name);
  }
  files.paths.push_back(step_folder / kManifestFile);
  files.sha256 = sha256_file(step_folder / kManifestFile);
  return files;
}

Checkpoint map_checkpoint(const fs::path& step_folder) {
  CheckpointManifest manifest = verify_lengths(step_folder);
  Json state = parse_json(read_file(step_folder / kStateFile));
  if (state.is_discarded()) {
    throw Error(Errc::Corrupt, (step_folder / kStateFile).string() + " is not JSON");
  }
  Checkpoint checkpoint{std::move(manifest.info),
                        Safetensors::open(step_folder / kModelFile),
                        Safetensors::open(step_folder / kOptimizerFile),
                        std::move(state),
                        {}};
  for (const auto& [name, written] : manifest.files) {
    const fs::path path = step_folder / name;
    if (path.extension() != kTensors || name == kModelFile || name == kOptimizerFile) continue;
    checkpoint.further.emplace(path.stem().string(), Safetensors::open(path));
  }
  return checkpoint;
}

std::vector<fs::path> list_checkpoints(const fs::path& folder) {
  std::vector<std::pair<uint64_t, fs::path>> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (const auto step = step_of(entry.path())) found.emplace_back(*step, entry.path());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw_errno("cannot read " + folder.string(), error.value());
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> folders;
  folders.reserve(found.size());
  for (auto& [step, path] : found) folders.push_back(std::move(path));
  return folders;
}

LatestCheckpoint latest_valid(const fs::path& folder) {
  auto folders = list_checkpoints(folder);
  std::reverse(folders.begin(), folders.end());
  LatestCheckpoint latest;
  for (const fs::path& step_folder : folders) {
    try {
      verify_checkpoint(step_folder);
      latest.path = step_folder;
      break;
    } catch (const Error& error) {
      latest.rejected.push_back(error.what());
    }
  }
  return latest;
}

void remove_checkpoint(const fs::path& step_folder) {
  const fs::path temporary = temporary_beside(step_folder);
  remove_tree(temporary);
  if (::rename(step_folder.c_str(), temporary.c_str()) != 0) {
    if (errno == ENOENT) return;
    throw_errno("cannot remove " + step_folder.string(), errno);
  }
  remove_tree(temporary);
}

}  // namespace dlflow::runtime
