#include "base/archive/tar.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"

namespace dlflow {
namespace {

constexpr size_t kBlockBytes = 512;

/// Longer names and pax headers are refused as damage.
constexpr uint64_t kMaxTextBytes = uint64_t{1} << 20;

using Block = std::array<char, kBlockBytes>;

Error corrupt(const std::string& what) {
  return Error(Errc::Corrupt, "the tar archive is damaged: " + what);
}

/// A field that ends at a zero byte or at its full length.
std::string_view field(const Block& block, size_t offset, size_t length) {
  const std::string_view whole(block.data() + offset, length);
  return whole.substr(0, whole.find('\0'));
}

/// Parses a number: octal digits, or, if the first bit is set, GNU's big-endian binary.
uint64_t number(const Block& block, size_t offset, size_t length) {
  uint64_t value = 0;
  if ((block[offset] & '\x80') != 0) {
    for (size_t i = 0; i < length; ++i) {
      const auto byte = uint8_t(i == 0 ? block[offset] & 0x7f : block[offset + i]);
      if (value >> 55 != 0) throw corrupt("a number is too large");
      value = value << 8 | byte;
    }
    return value;
  }
  std::string_view text = field(block, offset, length);
  const size_t begin = std::min(text.find_first_not_of(' '), text.size());
  text = text.substr(begin, text.find(' ', begin) - begin);
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value, 8);
  if (!text.empty() && (error != std::errc() || rest != text.data() + text.size())) {
    throw corrupt("'" + std::string(text) + "' is not an octal number");
  }
  return value;
}

/// Compares the sum of all bytes, with spaces in place of the checksum itself. Some old programs
/// added signed bytes.
void verify_checksum(const Block& block) {
  constexpr size_t kChecksum = 148;
  uint64_t sum = 0;
  int64_t signed_sum = 0;
  for (size_t i = 0; i < kBlockBytes; ++i) {
    const char byte = i >= kChecksum && i < kChecksum + 8 ? ' ' : block[i];
    sum += uint8_t(byte);
    signed_sum += static_cast<signed char>(byte);
  }
  const uint64_t stored = number(block, kChecksum, 8);
  if (stored != sum && stored != uint64_t(signed_sum))
    throw corrupt("a header's checksum is wrong");
}

/// Parses "LENGTH KEY=VALUE\n" records; LENGTH counts the whole record.
std::map<std::string, std::string> parse_pax(std::string_view text) {
  std::map<std::string, std::string> records;
  while (!text.empty()) {
    size_t length = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    const size_t begin = size_t(rest - text.data()) + 1;
    if (error != std::errc() || begin >= length || length > text.size() ||
        text[length - 1] != '\n') {
      throw corrupt("a pax header is malformed");
    }
    const std::string_view record = text.substr(begin, length - 1 - begin);
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) throw corrupt("a pax record has no '='");
    records[std::string(record.substr(0, equals))] = record.substr(equals + 1);
    text.remove_prefix(length);
  }
  return records;
}

struct Entry {
  char type = '0';
  std::string name;
  std::string link_target;
  mode_t mode = 0;
  uint64_t bytes = 0;
};

class TarReader {
 public:
  TarReader(ByteSource& archive, ArchiveEntries& entries, uint64_t max_entries)
      : archive_(archive), entries_(entries), max_entries_(max_entries), buffer_(size_t{1} << 18) {}

  uint64_t read_all() {
    Block block;
    while (next_header(block)) {
      Entry entry = parse(block);
      switch (entry.type) {
        case 'x':
          pax_ = parse_pax(read_text(entry.bytes));
          break;
        case 'g':  // a header for all later entries, with comments but nothing that is needed here
          read_text(entry.bytes);
          break;
        case 'L':
          long_name_ = read_long_name(entry.bytes);
          break;
        case 'K':
          long_link_ = read_long_name(entry.bytes);
          break;
        default:
          apply_extensions(entry);
          count(entry);
          unpack(entry);
      }
    }
    return num_entries_;
  }

 private:
  void count(const Entry& entry) {
    constexpr uint64_t kLevels = 8;
    num_entries_ += 1 + uint64_t(std::ranges::count(entry.name, '/')) / kLevels;
    if (num_entries_ <= max_entries_) return;
    throw Error(Errc::InvalidInput,
                "the tar archive has more than " + format_count(max_entries_) +
                    " entries, far more than its size suggests; it may be a decompression bomb");
  }

  /// False at the end of the archive: two zero blocks, or (from some programs) one or none.
  bool next_header(Block& block) {
    const size_t got = archive_.read(block);
    if (got == 0) {
      if (!any_header_) throw corrupt("it is empty");
      return false;
    }
    if (got < kBlockBytes) throw corrupt("it is truncated");
    if (std::all_of(block.begin(), block.end(), [](char byte) { return byte == 0; })) {
      drain();
      return false;
    }
    verify_checksum(block);
    any_header_ = true;
    return true;
  }

  /// Reads the rest, to detect a damaged end of a compressed archive.
  void drain() {
    while (archive_.read(buffer_) > 0) {
    }
  }

  static Entry parse(const Block& block) {
    Entry entry;
    entry.name = field(block, 0, 100);
    entry.mode = mode_t(number(block, 100, 8));
    entry.bytes = number(block, 124, 12);
    entry.type = block[156] == '\0' ? '0' : block[156];
    entry.link_target = field(block, 157, 100);
    const bool is_posix = std::memcmp(block.data() + 257, "ustar\0", 6) == 0;
    const std::string prefix(is_posix ? field(block, 345, 155) : std::string_view());
    if (!prefix.empty()) entry.name = prefix + "/" + entry.name;
    return entry;
  }

  void apply_extensions(Entry& entry) {
    if (long_name_) entry.name = *long_name_;
    if (long_link_) entry.link_target = *long_link_;
    for (const auto& [key, value] : pax_) {
      const bool is_name = key == "path" || key == "linkpath";
      if (is_name && value.find('\0') != std::string::npos) throw corrupt("a name has a zero byte");
      if (key == "path") entry.name = value;
      if (key == "linkpath") entry.link_target = value;
      if (key == "size") {
        const auto bytes = number_from<uint64_t>(value);
        if (!bytes) throw corrupt("a pax size is not a number");
        entry.bytes = *bytes;
      }
      if (key.starts_with("GNU.sparse.")) entry.type = 'S';
    }
    long_name_.reset();
    long_link_.reset();
    pax_.clear();
  }

  void unpack(const Entry& entry) {
    const bool is_old_folder = entry.type == '0' && entry.name.ends_with('/');
    if (entry.type == '5' || is_old_folder) {
      entries_.add_folder(entry.name, entry.mode | S_IFDIR);
      skip(entry.bytes);
    } else if (entry.type == '0' || entry.type == '7') {
      entries_.begin_file(entry.name, entry.mode);
      read_content(entry.bytes, [&](std::string_view bytes) { entries_.write(bytes); });
    } else if (entry.type == '1') {
      entries_.add_hard_link(entry.name, entry.link_target);
      skip(entry.bytes);
    } else if (entry.type == '2') {
      entries_.add_symbolic_link(entry.name, entry.link_target);
      skip(entry.bytes);
    } else if (entry.type == '3' || entry.type == '4' || entry.type == '6') {
      entries_.add_special_file(entry.name);
      skip(entry.bytes);
    } else {
      throw Error(Errc::InvalidInput,
                  "the archive's entry '" + entry.name + "' is " +
                      (entry.type == 'S' ? "a sparse file" : "not a file, folder or link") +
                      " (type '" + std::string(1, entry.type) + "'), which is not unpacked");
    }
  }

  std::string read_text(uint64_t bytes) {
    if (bytes > kMaxTextBytes) throw corrupt("a name or extended header is too long");
    std::string text;
    read_content(bytes, [&](std::string_view part) { text += part; });
    return text;
  }

  std::string read_long_name(uint64_t bytes) {
    const std::string text = read_text(bytes);
    return text.substr(0, text.find('\0'));
  }

  void skip(uint64_t bytes) {
    read_content(bytes, [](std::string_view) {});
  }

  /// Reads `bytes` and the padding of their last block.
  template <typename Use>
  void read_content(uint64_t bytes, const Use& use) {
    const uint64_t padding = (kBlockBytes - bytes % kBlockBytes) % kBlockBytes;
    while (bytes > 0) {
      const size_t part = size_t(std::min<uint64_t>(bytes, buffer_.size()));
      if (archive_.read(std::span(buffer_).first(part)) < part) throw corrupt("it is truncated");
      use(std::string_view(buffer_.data(), part));
      bytes -= part;
    }
    if (archive_.read(std::span(buffer_).first(padding)) < padding) {
      throw corrupt("it is truncated");
    }
  }

  ByteSource& archive_;
  ArchiveEntries& entries_;
  uint64_t max_entries_;
  uint64_t num_entries_ = 0;
  std::vector<char> buffer_;
  bool any_header_ = false;
  std::map<std::string, std::string> pax_;  // for the next entry only, like the long names
  std::optional<std::string> long_name_;
  std::optional<std::string> long_link_;
};

}  // namespace

uint64_t read_tar(ByteSource& archive, ArchiveEntries& entries, uint64_t max_entries) {
  return TarReader(archive, entries, max_entries).read_all();
}

}  // namespace dlflow
