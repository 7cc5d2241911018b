#include "steps/stage/unpacking.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "steps/transfer/stop_signal.h"

namespace dlflow::steps {
namespace {

constexpr size_t kMaxNameBytes = 4096;      // PATH_MAX
constexpr size_t kMaxComponentBytes = 255;  // NAME_MAX

Error refusal(const std::string& name, const std::string& why) {
  return Error(Errc::InvalidInput, "the archive's entry '" + name + "' " + why);
}

/// The parts of a path, except empty ones and ".".
std::vector<std::string> components(const std::string& path) {
  std::vector<std::string> parts;
  for (std::string& part : split(path, '/')) {
    if (!part.empty() && part != ".") parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace

Unpacking::Unpacking(std::function<std::filesystem::path()> new_file, uint64_t packed_bytes,
                     const UnpackLimits& limits)
    : new_file_(std::move(new_file)),
      max_bytes_(limits.max_bytes),
      max_entries_(limits.max_entries) {
  uint64_t by_ratio = UINT64_MAX;
  if (!__builtin_mul_overflow(packed_bytes, limits.max_ratio, &by_ratio)) {
    max_bytes_ = std::min(max_bytes_, std::max(by_ratio, limits.free_bytes));
  }
}

std::string Unpacking::checked_name(const std::string& name) {
  if (++num_entries_ > max_entries_) {
    throw Error(Errc::InvalidInput, "the archive has more than " + format_count(max_entries_) +
                                        " entries; unpack it yourself if you trust it");
  }
  if (name.starts_with('/')) throw refusal(name, "has an absolute name");
  if (name.find('\0') != std::string::npos) throw refusal(name, "has a zero byte in its name");
  if (find_invalid_utf8(name) != std::string::npos) {
    throw Error(Errc::InvalidInput, "the archive has a name that is not UTF-8");
  }
  const auto parts = components(name);
  for (const std::string& part : parts) {
    if (part == "..") throw refusal(name, "leads out of the archive's folder");
    if (part.size() > kMaxComponentBytes) throw refusal(name, "has too long a name");
  }
  if (parts.empty() || name.size() > kMaxNameBytes) throw refusal(name, "has no usable name");
  return join(parts, "/");
}

void Unpacking::check_mode(const std::string& name, mode_t mode) const {
  if ((mode & (S_ISUID | S_ISGID)) != 0 && !S_ISDIR(mode)) {
    throw refusal(name, "is set-user-id or set-group-id");
  }
}

void Unpacking::begin_file(const std::string& name, mode_t mode) {
  end_file();
  name_ = checked_name(name);
  check_mode(name, mode);
  entry_ = {};
  entry_.executable = (mode & 0111) != 0;
  hash_ = Sha256();
  path_ = new_file_();
  file_ = open_or_throw(path_, O_WRONLY | O_CREAT | O_EXCL);
}

void Unpacking::write(std::string_view bytes) {
  DLFLOW_CHECK(bool(file_));
  throw_if_stopped();
  if (bytes.size() > max_bytes_ - total_bytes_) {
    throw Error(Errc::InvalidInput, "the archive unpacks to more than " + format_size(max_bytes_) +
                                        ", which is suspicious for its size or more than the cache "
                                        "may hold; unpack it yourself if you trust it");
  }
  total_bytes_ += bytes.size();
  entry_.bytes += bytes.size();
  hash_.update(bytes);
  write_all(file_.get(), bytes, path_);
}

void Unpacking::end_file() {
  if (!file_) return;
  close_or_throw(std::move(file_), path_);
  entry_.sha256 = hash_.hex();
  contents_.push_back({path_, entry_.sha256, entry_.bytes});
  listing_[name_] = entry_;
}

void Unpacking::add_symbolic_link(const std::string& name, const std::string& target) {
  end_file();
  ListedFile link;
  link.link_target = target;
  if (target.empty() || find_invalid_utf8(target) != std::string::npos) {
    throw refusal(name, "is a link to nothing");
  }
  listing_[checked_name(name)] = std::move(link);
}

void Unpacking::add_hard_link(const std::string& name, const std::string& target) {
  end_file();
  const auto earlier = listing_.find(join(components(target), "/"));
  if (target.starts_with('/') || earlier == listing_.end() ||
      !earlier->second.link_target.empty()) {
    throw refusal(name,
                  "is a link to '" + target + "', which is not an earlier file of the archive");
  }
  const ListedFile same = earlier->second;
  listing_[checked_name(name)] = same;
}

void Unpacking::add_folder(const std::string& name, mode_t mode) {
  end_file();
  if (components(name).empty() && !name.starts_with('/'))
    return;  // "./", the first entry of tar -C DIR .
  checked_name(name);
  check_mode(name, mode);
}

void Unpacking::add_special_file(const std::string& name) {
  throw refusal(name, "is a device or a pipe, which is not unpacked");
}

Listing Unpacking::finish() {
  end_file();
  for (const auto& [name, file] : listing_) {
    if (is_folder(name)) throw refusal(name, "is both a folder and another entry");
  }
  check_links();
  return std::move(listing_);
}

bool Unpacking::is_folder(const std::string& name) const {
  const std::string prefix = name + "/";
  const auto first = listing_.lower_bound(prefix);
  return first != listing_.end() && first->first.starts_with(prefix);
}

/// A link may go up to the archive's top and then down to an entry. No folder on the way can be a
/// link (finish() has checked that, and ".." is refused after the first name), so the path can be
/// resolved as text.
void Unpacking::check_links() const {
  for (const auto& [name, file] : listing_) {
    if (file.link_target.empty()) continue;
    const auto refuse = [&, link = name, target = file.link_target] {
      return refusal(link,
                     "is a link to '" + target + "', which is not a file or folder of the archive");
    };
    if (file.link_target.starts_with('/')) throw refuse();
    std::vector<std::string> place = split(name, '/');
    place.pop_back();
    bool going_up = true;
    for (const std::string& part : components(file.link_target)) {
      if (part != "..") {
        going_up = false;
        place.push_back(part);
      } else if (going_up && !place.empty()) {
        place.pop_back();
      } else {
        throw refuse();
      }
    }
    const std::string reached = join(place, "/");
    const auto target = listing_.find(reached);
    const bool is_file = target != listing_.end() && target->second.link_target.empty();
    if (!is_file && !reached.empty() && !is_folder(reached)) throw refuse();
  }
}

}  // namespace dlflow::steps
