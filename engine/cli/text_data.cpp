#include "engine/cli/text_data.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/data/names.h"
#include "runtime/data/split_files.h"
#include "runtime/import/npy.h"
#include "runtime/import/table.h"
#include "runtime/text/documents.h"
#include "runtime/text/token_samples.h"
#include "runtime/text/vocabulary.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using namespace runtime;

constexpr uint32_t kUsualLength = 256;

/// Throws unless the word is "bytes"; earlier versions also found byte pairs.
void require_bytes(const std::string& tokens) {
  if (tokens == "bytes") return;
  throw Error(Errc::InvalidInput,
              "--tokens " + tokens +
                  (tokens.starts_with("bpe")
                       ? ": byte pairs are no longer made here; make the tokens in Python, with "
                         "the package sentencepiece, as docs/user/data-format.md#text shows, and "
                         "pack them with --tokenizer; or write --tokens bytes"
                       : ": write bytes; other tokens are made in Python, and packed with "
                         "--tokenizer, as docs/user/data-format.md#text shows"));
}

/// The documents of each split.
using Parts = std::map<Split, std::vector<Document>>;

Parts divide(const std::vector<Document>& documents, Split split, const SplitShares& shares) {
  if (shares.test == 0 && shares.validation == 0) return {{split, documents}};
  std::vector<std::string> names;
  for (const Document& document : documents) names.push_back(document.name);
  Parts parts;
  for (const auto& [part, numbers] : split_by_name(names, shares)) {
    for (const size_t number : numbers) parts[part].push_back(documents[number]);
  }
  return parts;
}

/// The content of the tokenizer's file; empty for bytes.
std::string tokenizer_for(const TextOptions& options, const fs::path& output) {
  const fs::path place = output / kTokenizerFile;
  const std::string there = fs::exists(place) ? read_file(place) : "";
  std::string content = options.tokenizer.empty() ? "" : read_file(options.tokenizer);
  if (there.empty() || content == there) return content;
  throw Error(Errc::InvalidInput,
              options.tokenizer.empty()
                  ? place.string() +
                        " already exists, of another split; pack tokens of it with "
                        "--tokenizer " +
                        place.string() + " instead of --tokens"
                  : place.string() + " is a different tokenizer than " +
                        options.tokenizer.string() +
                        "; all splits need the same one: write --tokenizer " + place.string());
}

/// Reads documents from arrays of tokens, without their end tokens.
Documents read_arrays(const std::vector<fs::path>& sources, const std::string& pattern,
                      const Vocabulary& vocabulary) {
  Documents documents;
  for (const fs::path& source : sources) {
    for (const auto& [path, name] : files_of(source, pattern)) {
      if (path.extension() != ".npy") {
        throw Error(Errc::InvalidInput, path.string() +
                                            ": is not an .npy array; with --tokenizer the sources "
                                            "are tokens, which you make from texts in Python, as "
                                            "docs/user/data-format.md#text shows");
      }
      const std::vector<uint32_t> tokens = read_npy_tokens(path, vocabulary.size());
      const SharedBytes& content = documents.files.emplace_back(shared_bytes(std::string(
          reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(uint32_t))));
      size_t number = 0;
      for (auto begin = tokens.begin(); begin != tokens.end();) {
        const auto end = std::find(begin, tokens.end(), vocabulary.end_of_text());
        if (end != begin) {
          documents.all.push_back(
              {fmt::format("{}:{}", name, ++number),
               content.view.substr(size_t(begin - tokens.begin()) * sizeof(uint32_t),
                                   size_t(end - begin) * sizeof(uint32_t))});
        }
        begin = end == tokens.end() ? end : std::next(end);
      }
    }
  }
  return documents;
}

/// The tokens of all documents, each followed by an end token. Documents hold tokens from
/// read_arrays(), or text whose bytes are the tokens.
std::vector<uint32_t> tokens_of(const std::vector<Document>& documents,
                                const Vocabulary& vocabulary) {
  std::vector<uint32_t> tokens;
  for (const Document& document : documents) {
    if (vocabulary.has_bytes_alone()) {
      for (const char byte : document.text) tokens.push_back((unsigned char)(byte));
    } else {
      const size_t begin = tokens.size();
      tokens.resize(begin + document.text.size() / sizeof(uint32_t));
      std::memcpy(tokens.data() + begin, document.text.data(), document.text.size());
    }
    tokens.push_back(vocabulary.end_of_text());
  }
  return tokens;
}

/// The non-empty lines of all documents, each as a document.
std::vector<Document> lines_of(const std::vector<Document>& documents) {
  std::vector<Document> lines;
  for (const Document& document : documents) {
    size_t number = 0;
    for (std::string_view rest = document.text; !rest.empty();) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      std::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      ++number;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.empty()) continue;
      lines.push_back({fmt::format("{}:{}", document.name, number), line, document.label});
    }
  }
  return lines;
}

/// Reads each row of the tables as a document; the first of a file is "reviews.csv:1".
Documents read_rows(const std::vector<fs::path>& sources, const TextColumns& columns,
                    std::vector<std::string>& notes) {
  Documents documents;
  for (const fs::path& source : sources) {
    refuse_unreadable(source);
    if (!is_table(source) || fs::is_directory(source)) {
      throw Error(Errc::InvalidInput, "--text names a column of tables, .csv or .tsv files; " +
                                          source.string() + " is not one");
    }
    TextTable table =
        parse_text_table(map_file(source).view, source.string(), columns, separator_of(source));
    notes.insert(notes.end(), table.notes.begin(), table.notes.end());
    std::string all;
    for (const std::string& text : table.texts) all += text;
    const SharedBytes& content = documents.files.emplace_back(shared_bytes(std::move(all)));
    size_t begin = 0;
    for (size_t i = 0; i < table.texts.size(); ++i) {
      const size_t size = table.texts[i].size();
      documents.all.push_back({fmt::format("{}:{}", source.filename().string(), i + 1),
                               content.view.substr(begin, size),
                               table.classes.empty() ? "" : std::move(table.classes[i])});
      begin += size;
    }
  }
  if (!documents.all.empty()) return documents;
  throw Error(Errc::NotFound, sources[0].string() + ": there are no rows in it");
}

/// The class of a document's row, otherwise its top folder in the source: "sports" of
/// "sports/1.txt:2".
std::string class_of(const Document& document) {
  if (!document.label.empty()) return document.label;
  const size_t end = document.name.find('/');
  if (end != document.name.npos) return document.name.substr(0, end);
  throw Error(Errc::InvalidInput,
              document.name +
                  ": is not in a folder that names its class; with --labels folders, give a folder "
                  "that has one folder of documents for each class");
}

/// The classes in the order of their labels, by name; `known` if it includes them all.
std::vector<std::string> classes_of(const std::vector<Document>& documents,
                                    std::vector<std::string> known) {
  std::set<std::string> names;
  for (const Document& document : documents) names.insert(class_of(document));
  const std::set<std::string> others(known.begin(), known.end());
  if (std::ranges::includes(others, names)) return known;
  for (const std::string& name : names) {
    const std::string mistake = mistake_in_name(name);
    if (mistake.empty()) continue;
    throw Error(Errc::InvalidInput, "the folder '" + escaped(name) +
                                        "' names a class, but its name " + mistake + "; rename it");
  }
  std::vector<std::string> classes(names.begin(), names.end());
  const bool is_table = !documents[0].label.empty();
  if (classes.size() >= 2) {
    return is_table ? in_order_of_labels(std::move(classes), documents[0].name) : classes;
  }
  if (is_table) {
    throw Error(Errc::InvalidInput,
                "all rows are of the class '" + classes[0] + "'; a classifier needs two or more");
  }
  throw Error(Errc::InvalidInput, "all documents are in the folder '" + *names.begin() +
                                      "'; --labels folders needs two classes or more, a folder "
                                      "for each");
}

/// Makes samples of each document and its end token. With classes: its first `length` tokens.
/// Without: pieces of `length`; a last piece of one token is left out, since it has no token to
/// predict. Returns the tokens used.
std::vector<uint32_t> take_documents(const std::vector<Document>& documents,
                                     const std::vector<uint32_t>& tokens, uint32_t length,
                                     const Vocabulary& vocabulary,
                                     const std::vector<std::string>& classes, TextSplit& result) {
  std::map<std::string, uint32_t> label_of;
  for (const std::string& name : classes) label_of.emplace(name, uint32_t(label_of.size()));
  std::vector<uint32_t> used, lengths, labels;
  auto begin = tokens.begin();
  for (const Document& document : documents) {
    const auto end = std::next(std::find(begin, tokens.end(), vocabulary.end_of_text()));
    if (!classes.empty()) labels.push_back(label_of.at(class_of(document)));
    size_t pieces = 0;
    for (; begin != end; ++pieces) {
      const auto count = std::min<std::ptrdiff_t>(end - begin, length);
      if (classes.empty() ? count == 1 : pieces == 1) break;
      used.insert(used.end(), begin, begin + count);
      lengths.push_back(uint32_t(count));
      begin += count;
    }
    result.left_over += size_t(end - begin);
    result.num_cut += classes.empty() ? pieces > 1 : begin != end;
    begin = end;
  }
  result.source = text_source(used, lengths, length, vocabulary);
  if (classes.empty()) return used;
  result.source.vocabulary = std::exchange(result.source.num_classes, uint32_t(classes.size()));
  result.source.labels = std::move(labels);
  return used;
}

TextSplit make_split(Split split, const std::vector<Document>& documents,
                     std::vector<uint32_t> tokens, TextOptions::Per per, uint32_t length,
                     const Vocabulary& vocabulary, const std::vector<std::string>& classes) {
  TextSplit result;
  result.split = split;
  result.num_documents = documents.size();
  if (!classes.empty() || per != TextOptions::Per::Length) {
    tokens = take_documents(documents, tokens, length, vocabulary, classes, result);
  } else if (tokens.size() < length) {
    throw Error(
        Errc::InvalidInput,
        fmt::format("the {} text has {} tokens, but a sample takes {}; add text, or choose a "
                    "smaller --length",
                    split == Split::Train ? "training" : split_name(split),
                    format_count(tokens.size()), format_count(length)));
  } else {
    result.source = token_source(tokens, length, vocabulary);
    result.left_over = tokens.size() % length;
    tokens.resize(tokens.size() - result.left_over);
  }
  result.num_tokens = tokens.size();
  for (const uint32_t token : tokens) result.num_bytes += vocabulary.text_of(token).size();
  return result;
}

/// Throws for options that exclude each other.
void require_fitting(const TextOptions& options) {
  const bool is_table = !options.column.empty();
  if (!options.tokenizer.empty() &&
      (is_table || !options.label_column.empty() || options.per == TextOptions::Per::Line)) {
    throw Error(Errc::InvalidInput,
                "--text, --class and --per line are for texts, and with --tokenizer the sources "
                "are tokens: end each document with the end token, write --per document, and for "
                "classes --labels folders");
  }
  if (is_table && (options.labels || options.pattern)) {
    throw Error(Errc::InvalidInput,
                "--labels folders and --pattern are for texts in folders; for a table, --class "
                "names the column of classes");
  }
  if (!is_table && !options.label_column.empty()) {
    throw Error(
        Errc::InvalidInput,
        "--class names a column of a table; also write --text COLUMN for the column of texts");
  }
  if (!options.labels || options.per != TextOptions::Per::Length) return;
  throw Error(Errc::InvalidInput,
              "--labels folders gives each sample a class; add --per document or --per line, which "
              "defines a sample");
}

}  // namespace

double TextSplit::bytes_per_token() const { return double(num_bytes) / double(num_tokens); }

TokenizedText tokenize(const std::vector<fs::path>& sources, const TextOptions& options,
                       Split split, const SplitShares& shares, const fs::path& output) {
  const bool bytes = options.tokenizer.empty();
  if (bytes) require_bytes(options.tokens);
  require_fitting(options);
  const bool is_table = !options.column.empty(),
             has_classes = options.labels || !options.label_column.empty();
  TokenizedText text;
  text.tokenizer = tokenizer_for(options, output);
  const Vocabulary vocabulary =
      bytes ? Vocabulary::bytes() : Vocabulary::parse(text.tokenizer, options.tokenizer.string());
  Documents documents = !bytes ? read_arrays(sources, options.pattern.value_or("*.npy"), vocabulary)
                        : is_table
                            ? read_rows(sources, {options.column, options.label_column}, text.notes)
                            : read_documents(sources, options.pattern.value_or("*.txt"));
  if (options.per == TextOptions::Per::Line) documents.all = lines_of(documents.all);
  if (documents.all.empty()) throw Error(Errc::NotFound, sources[0].string() + ": has no text");
  const uint32_t length = options.length.value_or(kUsualLength);
  const Parts parts = divide(documents.all, split, shares);
  if (has_classes) text.classes = classes_of(documents.all, read_names(output / kClassNames));
  for (const auto& [part, its_documents] : parts) {
    text.splits.push_back(make_split(part, its_documents, tokens_of(its_documents, vocabulary),
                                     options.per, length, vocabulary, text.classes));
  }
  return text;
}

}  // namespace dlflow
