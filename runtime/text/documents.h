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
  std::string_view text;   ///< in one of Documents::files, never empty
  std::string label = {};  ///< its class, if a table says it
};

struct Documents {
  std::vector<Document> all;
  std::vector<SharedBytes> files;
};

/// The documents of files and folders, in the order of `sources` and, in folders, of names. Of a
/// folder, all files in it whose names fit `pattern` (*.txt) are taken, those of folders in it too.
/// A line <|endoftext|> ends a document within a file, behind CR LF, too; a mark of UTF-8 is no
/// text. Files without text are left out.
/// Throws Error: NotFound if a source is not there, or none has text; InvalidInput with the first
/// 20 files that are not UTF-8 or have a NUL byte, a line "FILE:LINE:COLUMN: …" each. With
/// `any_bytes`, they need not be UTF-8.
Documents read_documents(std::span<const std::filesystem::path> sources, const std::string& pattern,
                         bool any_bytes);

}  // namespace dlflow::runtime
