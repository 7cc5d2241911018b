#include "runtime/import/picture_kind.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

std::string describe(const PictureKind& kind) {
  return fmt::format("{} x {} pixels {}{}", kind.shape.width, kind.shape.height,
                     kind.shape.channels == 1 ? "in grey" : "in colour",
                     kind.is_wide ? " of 16 bits" : "");
}

}  // namespace

UsualKind::UsualKind(std::vector<std::filesystem::path> files, KindOf kind_of)
    : files_(std::move(files)), kind_of_(std::move(kind_of)) {
  for (size_t i = 0; i < files_.size(); ++i) {
    try {
      kind_ = kind_of_(i);
      first_ = i;
      return;
    } catch (const Error&) {  // reported when the file is read
    }
  }
}

void UsualKind::require(size_t sample, const PictureKind& own) {
  if (own == kind_) return;
  const size_t first = first_;
  const PictureKind kind = kind_;
  if (!std::exchange(has_counted_, true)) count_kinds();
  if (own != kind_) refuse(sample, own);
  refuse(first, kind);
}

void UsualKind::count_kinds() {
  struct Seen {
    PictureKind kind;
    size_t first = 0, count = 0;
  };
  std::vector<Seen> all;
  for (size_t i = 0; i < files_.size(); ++i) {
    try {
      const PictureKind kind = kind_of_(i);
      auto seen = std::ranges::find(all, kind, &Seen::kind);
      if (seen == all.end()) seen = all.insert(all.end(), {kind, i, 0});
      ++seen->count;
    } catch (const Error&) {  // reported when the file is read
    }
  }
  const auto most = std::ranges::max_element(all, {}, &Seen::count);  // the first wins a tie
  if (most == all.end()) return;
  first_ = most->first;
  kind_ = most->kind;
  count_ = most->count;
}

void UsualKind::refuse(size_t sample, const PictureKind& own) const {
  const bool same_pixels =
      own.shape.channels == kind_.shape.channels && own.is_wide == kind_.is_wide;
  const std::string advice =
      same_pixels ? fmt::format("write --resize {}x{}", kind_.shape.width, kind_.shape.height)
                  : "convert them to one kind first";
  throw Error(Errc::InvalidInput,
              fmt::format("{}: has {}; the commonest are {} ({} of {} pictures, such as {}); {}",
                          files_[sample].string(), describe(own), describe(kind_), count_,
                          files_.size(), files_[first_].string(), advice));
}

}  // namespace dlflow::runtime
