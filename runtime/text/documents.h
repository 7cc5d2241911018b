#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/shared_bytes.h"

namespace dlflow::runtime {

/// A text of its own. In training, another one follows it after an end-of-text token.
struct Document {
  std::string name;        ///< of its file, which determines its split; "stories.txt:2"
  std::string_view text;   ///< never empty, in one of Documents::files; or tokens of 4 bytes
  std::string label = {};  ///< its class, if a table has it
};

struct Documents {
  std::vector<Document> all;
  std::vector<SharedBytes> files;
};

struct NamedFile {
  std::filesystem::path path;
  std::string name;  ///< relative to its source
};

/// Returns `source` if it is a file. For a folder, returns all files in it and its subfolders whose
/// names match `pattern`, sorted by name. Throws Error{NotFound} if there is none.
std::vector<NamedFile> files_of(const std::filesystem::path& source, const std::string& pattern);

/// The documents of files_of(`sources`), in the same order. A line <|endoftext|>, also with CR LF,
/// ends a document within a file; a UTF-8 byte order mark is not part of the text. Skips files
/// without text; they need not be UTF-8. Throws Error: NotFound if a source is missing, or none has
/// text; InvalidInput with the first 20 files that have a NUL byte, one line "FILE:LINE:COLUMN: …"
/// each.
Documents read_documents(std::span<const std::filesystem::path> sources,
                         const std::string& pattern);

}  // namespace dlflow::runtime
