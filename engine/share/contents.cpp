#include "engine/share/contents.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <set>
#include <variant>

#include "base/error.h"
#include "base/url.h"
#include "base/version.h"
#include "engine/container/image_source.h"
#include "engine/model/mistakes.h"
#include "engine/model/parse.h"
#include "engine/model/step_kinds.h"
#include "engine/plan/layout.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/sources.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "workflow";
constexpr std::string_view kFileScheme = "file://";

/// The first place of `word` in the workflow's text.
Location place_of(const Workflow& workflow, const std::string& word) {
  const size_t offset = workflow.text.find(word);
  if (word.empty() || offset == workflow.text.npos) return {};
  return Mistakes(workflow.file, workflow.text).location_of(offset);
}

/// The part of `images.NAME.from` after the transport.
std::string path_of(const Image& image) { return image.from.substr(image.from.find(':') + 1); }

/// The text of a number that JSON would write in another form; else empty.
std::string written_text(const Workflow& workflow, const std::string& param) {
  const auto found = workflow.written.find(param);
  return found == workflow.written.end() ? "" : found->second;
}

/// The parameters whose values differ from the workflow's text.
Json set_params_of(const Workflow& workflow) {
  const auto parsed = parse_workflow_text(workflow.text, workflow.file, {}, {.check_files = false});
  const auto* plain = std::get_if<Workflow>(&parsed);
  Json set = Json::object();
  for (const auto& [name, value] : workflow.params.items()) {
    const bool is_plain = plain != nullptr && plain->params.value(name, Json()) == value &&
                          written_text(*plain, name) == written_text(workflow, name);
    if (!is_plain) set[name] = value;
  }
  return set;
}

class Collector {
 public:
  Collector(const Plan& plan, const PackOptions& options, FileHashes& hashes)
      : plan_(plan), workflow_(plan.workflow), options_(options), hashes_(hashes) {}

  Bundle collect() {
    bundle_.workflow = workflow_;
    Manifest& manifest = bundle_.manifest;
    manifest.dlflow = DLFLOW_VERSION;
    manifest.name = workflow_.name;
    manifest.set = set_params_of(workflow_);
    for (const auto& [name, text] : workflow_.written) {
      if (manifest.set.contains(name)) manifest.written[name] = text;
    }
    base_ = frozen_base(kFolder, names());
    manifest.workflow = (base_ / fs::path(workflow_.file).filename()).string();
    bundle_.files.push_back({manifest.workflow, {}, workflow_.text});
    for (const auto& [name, hash] : plan_.files) {
      if (fs::path(name).is_absolute()) refuse_absolute(name, place_of(workflow_, name));
      add(frozen_path(base_, name),
          plan_.directory.empty() ? plan_.base / name : frozen_file(plan_, name));
    }
    add_images();
    for (const StageSource& source : stage_sources(workflow_)) add_data(source);
    for (const std::string& name : data_places()) add_place(name);
    return std::move(bundle_);
  }

 private:
  /// All files that keep their place beside the workflow.
  ContentHashes names() const {
    ContentHashes all = plan_.files;
    for (const Image& image : workflow_.images) {
      if (is_packed(image)) all.emplace(path_of(image), "");
    }
    for (const std::string& name : data_places()) {
      if (travels(name)) all.emplace(name, "");
    }
    return all;
  }

  /// Files and folders that steps read in place: `with: {data: …}`, `inputs: [{path: …}]`.
  std::vector<std::string> data_places() const {
    std::vector<std::string> places;
    for (const auto& [name, identity] : plan_.outside) {
      if (name.find("://") == std::string::npos) places.push_back(name);
    }
    return places;
  }

  /// Whether data goes into the bundle and keeps its place beside the workflow.
  bool travels(const std::string& name) const {
    return options_.with_data && !fs::path(name).is_absolute();
  }

  void add_place(const std::string& name) {
    const fs::path source = plan_.base / name;
    std::error_code none;
    if (!travels(name) || !fs::exists(source, none)) {
      bundle_.left_out.push_back(name);
      return;
    }
    add_beside_workflow(name);
  }

  /// The file `name`, or all files of the folder `name`.
  void add_beside_workflow(const fs::path& name) {
    const fs::path source = plan_.base / name;
    if (fs::is_regular_file(source)) return add(frozen_path(base_, name.string()), source);
    for (const auto& entry : fs::recursive_directory_iterator(source)) {
      if (!entry.is_regular_file()) continue;
      const fs::path inside = name / entry.path().lexically_relative(source);
      add(frozen_path(base_, inside.string()), entry.path());
    }
  }

  [[noreturn]] void refuse_absolute(const std::string& path, Location location) const {
    throw_at(workflow_, location,
             "'" + path +
                 "' is an absolute path, which no other machine has; put it beside the workflow "
                 "and name it relative to it");
  }

  void add(const fs::path& name, const fs::path& source) {
    bundle_.files.push_back({name.string(), source});
  }

  bool is_used(const Image& image) const {
    if (image.name == kReleaseImage) return false;  // specific to this machine
    return std::ranges::find(workflow_.steps, image.name, &Step::image) != workflow_.steps.end();
  }

  bool is_packed(const Image& image) const {
    return options_.with_images && is_used(image) && !image.from.starts_with("docker://");
  }

  /// The digest of the image: the one in the run or the workflow if there is one, else computed.
  Digest digest_of(const Image& image) {
    if (!is_packed(image) && !image.digest.empty()) return image.digest;
    try {
      return image_digest(image_source(image.from, plan_.base),
                          [this](const fs::path& file) { return hashes_.sha256(file); });
    } catch (const Error& error) {
      throw_at(workflow_, image.location, "image '" + image.name + "': " + error.what());
    }
  }

  void add_images() {
    for (const Image& image : workflow_.images) {
      if (!is_used(image)) continue;
      const Digest digest = digest_of(image);
      if (!image.digest.empty() && digest != image.digest) {
        throw_at(workflow_, image.location,
                 "image '" + image.name + "' is " + digest.text() + " now, but was " +
                     image.digest.text());
      }
      bundle_.manifest.images[image.name] = {image.from, digest, is_packed(image)};
      if (is_packed(image)) add_image(image);
    }
  }

  void add_image(const Image& image) {
    const fs::path path = path_of(image);
    if (path.is_absolute()) refuse_absolute(path.string(), image.location);
    if (image.from.starts_with("dir:")) {
      throw_at(workflow_, image.location,
               "image '" + image.name +
                   "' is a root file system in a folder, which is not packed; give it as "
                   "docker-archive: or oci:");
    }
    add_beside_workflow(path);
  }

  void add_data(const StageSource& staged) {
    const Json& source = staged.source;
    const std::string url = source.value("url", "");
    if (!url.starts_with(kFileScheme)) return;
    PackedData data{.url = url, .sha256 = source.value("sha256", ""), .packed = options_.with_data};
    std::transform(data.sha256.begin(), data.sha256.end(), data.sha256.begin(),
                   [](unsigned char c) { return char(std::tolower(c)); });
    if (data.packed) {
      const Location found = place_of(workflow_, url);
      const Location location = found.line == 0 ? staged.step->location : found;
      const fs::path file = local_file(url, location);
      check_source(location, file, data.sha256);
      data.bytes = fs::file_size(file);
      add(data_path(data.sha256), file);
    }
    bundle_.manifest.data.push_back(std::move(data));
  }

  /// The single file of `url`.
  fs::path local_file(const std::string& url, Location location) const {
    const auto place = parse_file_url(url);
    if (place && place->is_file()) return place->path;
    throw_at(workflow_, location,
             url +
                 " is not one file, and cannot be packed; put its files into one (`dlflow data "
                 "pack`, tar), or stage them from an address that both clusters reach");
  }

  void check_source(Location location, const fs::path& file, const std::string& declared) {
    std::error_code ignored;
    if (!fs::is_regular_file(file, ignored)) {
      throw_at(workflow_, location, file.string() + " is not a file, so it cannot be packed");
    }
    const std::string hash = hashes_.sha256(file);
    if (declared.empty()) {
      throw_at(workflow_, location,
               "packed data is found by its hash; declare it: sha256: " + hash);
    }
    if (hash != declared) {
      throw_at(workflow_, location,
               file.string() + " is not what the workflow declares: its " + "SHA-256 is " + hash);
    }
  }

  const Plan& plan_;
  const Workflow& workflow_;
  PackOptions options_;
  FileHashes& hashes_;
  Bundle bundle_;
  fs::path base_;  // stands for the workflow's folder
};

constexpr std::string_view kEndsPath = " \t\r\n\"'`,;:()[]{}<>|&$#";

/// Whether every machine has the path, or creates it.
bool is_everywhere(std::string_view path) {
  constexpr std::array<std::string_view, 8> kFolders = {"/bin/", "/usr/bin/", "/usr/lib/", "/lib/",
                                                        "/etc/", "/dev/",     "/proc/",    "/sys/"};
  return std::any_of(kFolders.begin(), kFolders.end(),
                     [path](std::string_view folder) { return path.starts_with(folder); });
}

/// Whether a path may begin at `offset`: it must not continue a word, a URL or another path.
bool begins_path(std::string_view text, size_t offset) {
  if (offset + 1 >= text.size() || kEndsPath.find(text[offset + 1]) != kEndsPath.npos ||
      text[offset + 1] == '/') {
    return false;
  }
  constexpr std::string_view kScheme = "file://";
  const std::string_view before = text.substr(0, offset);
  if (before.ends_with(kScheme)) return true;
  return offset == 0 ||
         std::string_view(" \t\r\n\"'`,;:=([{>|&").find(before.back()) != std::string_view::npos;
}

bool is_packed(const Bundle& bundle, std::string_view path) {
  return std::ranges::any_of(bundle.manifest.data, [path](const PackedData& data) {
    return data.packed && data.url.ends_with(path) && data.url.size() == path.size() + 7;
  });
}

std::string advice(std::string_view text, size_t offset) {
  const bool staged = text.substr(0, offset).ends_with("file://");
  return staged ? "; pack it with --with-data, or stage it from a server"
                : "; make it a parameter, which --set changes, or put it beside the workflow";
}

}  // namespace

Bundle collect(const Plan& plan, const PackOptions& options, FileHashes& hashes) {
  return Collector(plan, options, hashes).collect();
}

std::vector<StageSource> stage_sources(const Workflow& workflow) {
  std::vector<StageSource> sources;
  std::set<std::string> seen;
  for (const Step& step : workflow.steps) {
    if (!copies_sources(step.uses)) continue;
    const std::string& key = find_step_kind(step.uses)->sources;
    each_known_with(workflow, step, [&](const Json& with) {
      for (const Json& source : with.value(key, Json::array())) {
        if (source.is_object() && seen.insert(source.dump()).second) {
          sources.push_back({&step, source});
        }
      }
    });
  }
  return sources;
}

Diagnostics machine_paths(const Bundle& bundle) {
  const std::string_view text = bundle.workflow.text;
  Mistakes found(bundle.workflow.file, text);
  for (size_t at = text.find('/'); at != text.npos; at = text.find('/', at + 1)) {
    if (!begins_path(text, at)) continue;
    const size_t end = std::min(text.find_first_of(kEndsPath, at), text.size());
    const std::string path(text.substr(at, end - at));
    std::error_code ignored;
    if (!is_everywhere(path) && !is_packed(bundle, path) &&
        std::filesystem::exists(path, ignored)) {
      found.add(found.location_of(at), path + " is a path of this machine" + advice(text, at));
    }
    at = end - 1;
  }
  for (const auto& [name, value] : bundle.manifest.set.items()) {
    if (!value.is_string() || !value.get_ref<const std::string&>().starts_with('/')) continue;
    found.add_elsewhere("--set", name + ": " + value.get<std::string>() +
                                     " is a path of this machine, and would be in the bundle");
  }
  return found.take();
}

}  // namespace dlflow
