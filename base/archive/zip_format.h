#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

/// How the records of a ZIP archive begin and how long they are, without what varies: APPNOTE.TXT
/// 6.3, "General Format of a .ZIP file".
namespace dlflow::zip {

constexpr std::string_view kLocalHeader = "PK\3\4";
constexpr std::string_view kLine = "PK\1\2";  ///< of the directory
constexpr std::string_view kEnd = "PK\5\6";
constexpr std::string_view kLocator64 = "PK\6\7";
constexpr std::string_view kEnd64 = "PK\6\6";
constexpr size_t kLocalHeaderBytes = 30;
constexpr size_t kLineBytes = 46;
constexpr size_t kEndBytes = 22;
constexpr size_t kLocator64Bytes = 20;
constexpr size_t kEnd64Bytes = 56;

/// A number that has no room in 32 bits stands in a ZIP64 field or record, and this in its place.
constexpr uint64_t kNoRoom32 = 0xffffffff;

constexpr unsigned kMadeByUnix = 3;

}  // namespace dlflow::zip
