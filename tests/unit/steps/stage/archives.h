#pragma once

#include <sys/stat.h>
#include <zlib.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "base/error.h"

/// Archives as an attacker, a damaged disk or an ordinary program would write them.
namespace dlflow::test {

inline std::string gzip(const std::string& content, int level = 6) {
  z_stream stream{};
  DLFLOW_CHECK(::deflateInit2(&stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(::deflateBound(&stream, uLong(content.size())) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = uInt(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = uInt(packed.size());
  DLFLOW_CHECK(::deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

/// One ustar entry: header and content, padded to whole blocks.
struct TarEntry {
  std::string name;
  std::string content = {};
  char type = '0';
  std::string link_target = {};
  unsigned mode = 0644;
  std::string prefix = {};
};

inline std::string tar_entry(const TarEntry& entry) {
  std::string block(512, '\0');
  const auto put = [&](size_t offset, const std::string& text) {
    block.replace(offset, text.size(), text);
  };
  const auto octal = [](uint64_t value, int digits) {
    char text[32];
    std::snprintf(text, sizeof text, "%0*llo", digits, static_cast<unsigned long long>(value));
    return std::string(text);
  };
  put(0, entry.name.substr(0, 100));
  put(100, octal(entry.mode, 7));
  put(124, octal(entry.content.size(), 11));
  block[156] = entry.type;
  put(157, entry.link_target.substr(0, 100));
  put(257, std::string("ustar\00000", 8));
  put(345, entry.prefix);
  put(148, "        ");
  unsigned sum = 0;
  for (const char byte : block) sum += uint8_t(byte);
  put(148, octal(sum, 6) + std::string("\0 ", 2));
  std::string padded = entry.content;
  padded.resize((padded.size() + 511) / 512 * 512, '\0');
  return block + padded;
}

inline std::string tar(std::initializer_list<TarEntry> entries) {
  std::string archive;
  for (const TarEntry& entry : entries) archive += tar_entry(entry);
  return archive + std::string(1024, '\0');
}

}  // namespace dlflow::test
