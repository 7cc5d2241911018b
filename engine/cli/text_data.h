#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/binary_writer.h"
#include "runtime/import/split_by_name.h"

/// Converts text into a data set of tokens, for `dlflow data pack`.
namespace dlflow {

/// The options for text.
struct TextOptions {
  std::string tokens;                  ///< "bytes", or empty
  std::filesystem::path tokenizer;     ///< the tokenizer's file, if the sources are tokens
  std::optional<std::string> pattern;  ///< of files in folders; default *.txt, or *.npy for tokens
  std::optional<uint32_t> length;      ///< most tokens of a sample; default 256

  /// Whether samples span documents (Length), or each document or line has samples of its own.
  enum class Per { Length, Document, Line };
  Per per = Per::Length;
  bool labels = false;       ///< a document's folder is its class
  std::string column;        ///< of a table whose rows are documents; empty: the sources are texts
  std::string label_column;  ///< of the same table, with each document's class; or empty

  bool given() const { return !tokens.empty() || !tokenizer.empty(); }
};

/// A split of the text, ready to be written.
struct TextSplit {
  runtime::Split split = runtime::Split::Train;
  runtime::SampleSource source;
  size_t num_documents = 0;
  uint64_t num_bytes = 0;   ///< of the text in its samples
  uint64_t num_tokens = 0;  ///< in its samples
  size_t left_over = 0;     ///< tokens at the ends of texts that make no sample
  size_t num_cut = 0;       ///< documents or lines in several samples; with classes: cut off

  double bytes_per_token() const;
};

struct TokenizedText {
  std::vector<TextSplit> splits;
  std::string tokenizer;             ///< the content of the tokenizer's file; empty: bytes
  std::vector<std::string> classes;  ///< names, in the order of labels; or none
  std::vector<std::string> notes;    ///< possible mistakes, a line each
};

/// Converts all documents of `sources` into tokens of `split`, or of several splits, divided by
/// name according to `shares`. Throws Error, before anything is written.
/// \param output  the data set's folder; a tokenizer and classes of its other splits apply, too
TokenizedText tokenize(const std::vector<std::filesystem::path>& sources,
                       const TextOptions& options, runtime::Split split,
                       const runtime::SplitShares& shares, const std::filesystem::path& output);

}  // namespace dlflow
