#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/shared_bytes.h"

namespace dlflow::runtime {

/// A text that stands for itself; in training, another follows it behind a token that ends it.
struct Document {
  std::string name;        ///< of its file, by which it is divided into splits; "stories.txt:2"
  std::string_view text;   ///< in one of Documents::files, never empty; or tokens of 4 bytes each
  std::string label = {};  ///< its class, if a table says it
};

struct Documents {
  std::vector<Document> all;
  std::vector<SharedBytes> files;
};

struct NamedFile {
  std::filesystem::path path;
  std::string name;  ///< within its source
};

/// `source`, or of a folder all files in it whose names fit `pattern`, those of folders in it too,
/// in the order of names. Throws Error{NotFound} if there is none.
std::vector<NamedFile> files_of(const std::filesystem::path& source, const std::string& pattern);

/// The documents of files_of(`sources`), in the order of these. A line <|endoftext|> ends a
/// document within a file, behind CR LF, too; a mark of UTF-8 is no text. Files without text are
/// left out; they need not be UTF-8.
/// Throws Error: NotFound if a source is not there, or none has text; InvalidInput with the first
/// 20 files that have a NUL byte, a line "FILE:LINE:COLUMN: …" each.
Documents read_documents(std::span<const std::filesystem::path> sources,
                         const std::string& pattern);

}  // namespace dlflow::runtime
