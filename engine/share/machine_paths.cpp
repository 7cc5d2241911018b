#include "engine/share/machine_paths.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "engine/model/mistakes.h"

namespace dlflow {
namespace {

constexpr std::string_view kEndsPath = " \t\r\n\"'`,;:()[]{}<>|&$#";

/// Every machine has these, or makes them.
bool is_everywhere(std::string_view path) {
  constexpr std::array<std::string_view, 8> kFolders = {"/bin/", "/usr/bin/", "/usr/lib/", "/lib/",
                                                        "/etc/", "/dev/",     "/proc/",    "/sys/"};
  return std::any_of(kFolders.begin(), kFolders.end(),
                     [path](std::string_view folder) { return path.starts_with(folder); });
}

/// Whether a path may begin at `offset`: nothing of a word, a URL or another path stands before it.
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
  return std::any_of(
      bundle.manifest.data.begin(), bundle.manifest.data.end(), [path](const PackedData& data) {
        return data.packed && data.url.ends_with(path) && data.url.size() == path.size() + 7;
      });
}

std::string advice(std::string_view text, size_t offset) {
  const bool staged = text.substr(0, offset).ends_with("file://");
  return staged ? "; pack it with --with-data, or stage it from a server"
                : "; make it a parameter, which --set changes, or put it beside the workflow";
}

}  // namespace

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
                                     " is a path of this machine, and it travels with the bundle");
  }
  return found.take();
}

}  // namespace dlflow
