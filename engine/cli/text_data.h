#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/binary_writer.h"
#include "runtime/import/split_by_name.h"

/// Text on its way into a data set of tokens, for `dlflow data pack`.
namespace dlflow {

/// The options for text.
struct TextOptions {
  std::string tokens;                  ///< "bytes"; or empty
  std::filesystem::path tokenizer;     ///< the file of what made the tokens that the sources are
  std::optional<std::string> pattern;  ///< of files in folders; *.txt, *.npy of tokens
  std::optional<uint32_t> length;      ///< tokens of a sample, the most there may be; 256

  /// Each document, or each line of it, is samples of its own; else all follow each other.
  enum class Per { Length, Document, Line };
  Per per = Per::Length;
  bool labels = false;       ///< the folder that a document is in is its class
  std::string column;        ///< of a table, whose rows are documents; or the sources are texts
  std::string label_column;  ///< of the same table, the class of each document; or none

  bool given() const { return !tokens.empty() || !tokenizer.empty(); }
};

/// A split of the text, ready to be written.
struct TextSplit {
  runtime::Split split = runtime::Split::Train;
  runtime::SampleSource source;
  size_t num_documents = 0;
  uint64_t num_bytes = 0;   ///< of the text that its samples have
  uint64_t num_tokens = 0;  ///< of its samples
  size_t left_over = 0;     ///< tokens at ends of the text that make no sample
  size_t num_cut = 0;  ///< documents, or lines, that became more than one sample; with classes,
                       ///< whose end is left out

  double bytes_per_token() const;
};

struct TokenizedText {
  std::vector<TextSplit> splits;
  std::string tokenizer;             ///< the content of its file; empty: bytes
  std::vector<std::string> classes;  ///< names, in the order of labels; or none
  std::vector<std::string> notes;    ///< what may be a mistake, a line each
};

/// All documents of `sources` as tokens of `split`, or divided by their names as `shares` say.
/// \param output  the folder that the data set is for, whose other splits may have a tokenizer and
///                classes; they are those of this split, too, which may lack some of them
/// Throws Error, before anything is written.
TokenizedText tokenize(const std::vector<std::filesystem::path>& sources,
                       const TextOptions& options, runtime::Split split,
                       const runtime::SplitShares& shares, const std::filesystem::path& output);

}  // namespace dlflow
