#include "steps/transfer/partial.h"

#include "base/file.h"
#include "base/parse_json.h"

namespace dlflow::steps {

namespace fs = std::filesystem;

Partial::Partial(fs::path content, bool hash_is_known)
    : content_(std::move(content)),
      note_(content_.string() + ".json"),
      hash_is_known_(hash_is_known) {
  const Json note = parse_json(read_file_if_exists(note_).value_or(""));
  if (note.is_object()) version_ = note.value("version", "");
  drop_unknown();
}

void Partial::drop_unknown() {
  if (version_.empty() && !hash_is_known_) discard();
}

uint64_t Partial::bytes() const {
  std::error_code error;
  const uint64_t bytes = fs::file_size(content_, error);
  return error ? 0 : bytes;
}

void Partial::belongs_to(const std::string& version) {
  if (version == version_) return;
  version_ = version;
  write_file_atomic(note_, Json({{"version", version_}}).dump());
}

void Partial::discard() {
  std::error_code ignored;
  fs::remove(content_, ignored);
  forget_version();
}

void Partial::forget_version() {
  std::error_code ignored;
  fs::remove(note_, ignored);
  version_.clear();
}

}  // namespace dlflow::steps
