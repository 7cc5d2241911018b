#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/output_file.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/cli/commands.h"
#include "engine/cli/data_overview.h"
#include "engine/cli/data_text.h"
#include "engine/cli/text_data.h"
#include "runtime/data/binary_format.h"
#include "runtime/data/binary_writer.h"
#include "runtime/data/names.h"
#include "runtime/data/sharded_dataset.h"
#include "runtime/data/split_files.h"
#include "runtime/import/checked_samples.h"
#include "runtime/import/sources.h"
#include "runtime/import/split_by_name.h"
#include "runtime/text/token_samples.h"
#include "runtime/text/vocabulary.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using namespace runtime;

/// Throws Error{InvalidInput} with `advice` if `file`, from the other splits, has different
/// `names`. Splits whose labels or columns have different meanings would give a bad accuracy and no
/// error. Also throws for names that cannot be lines of a file.
void require_same_names(const fs::path& file, const std::vector<std::string>& names,
                        const std::string& what, const std::string& advice) {
  if (names.empty()) return;
  for (const std::string& name : names) {
    const std::string mistake = name.empty() ? "" : mistake_in_name(name);  // a mask's may be empty
    if (mistake.empty()) continue;
    throw Error(Errc::InvalidInput, file.string() + ": the name '" + escaped(name) +
                                        "' of the source " + mistake + "; change it there");
  }
  const std::vector<std::string> before = read_names(file);
  if (before.empty() || before == names) return;
  throw Error(Errc::InvalidInput, file.string() + " has the " + what + " " + join(before, ", ") +
                                      ", but the source has " + join(names, ", ") + "; " + advice);
}

/// Gives `split` the classes in `file`, from the other splits, if they include its own: a split may
/// lack some classes.
void take_known_classes(const fs::path& file, ImportedSplit& split) {
  const std::vector<std::string> known = read_names(file);
  if (split.source.has_masks || split.classes.size() != split.source.num_classes) return;
  std::map<std::string, uint32_t> label_of;
  for (const std::string& name : known) label_of.emplace(name, uint32_t(label_of.size()));
  if (label_of.size() != known.size()) return;
  for (const std::string& name : split.classes) {
    if (!label_of.contains(name)) return;  // require_same_names() reports it
  }
  for (uint32_t& label : split.source.labels) label = label_of.at(split.classes[label]);
  split.source.num_classes = uint32_t(known.size());
  split.classes = known;
}

/// Writes no file if there are no names.
void write_names(const fs::path& file, const std::vector<std::string>& names) {
  if (!names.empty()) write_output(file, join(names, "\n") + "\n");
}

/// Prints each note as a warning on standard error.
void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    std::fprintf(stderr, "warning: %s\n", escaped(note).c_str());
  }
}

/// Returns why training on `file` is useless: it has only one sample, or one class.
std::vector<std::string> notes_on_learning(const fs::path& file, const ImportedSplit& split) {
  const SampleSource& source = split.source;
  if (source.size() == 1) {
    return {file.string() + ": has one sample, from which a network cannot generalise"};
  }
  const bool has_classes = source.num_targets == 0 && !source.has_masks && source.tokenizer.empty();
  const auto differ = std::ranges::adjacent_find(source.labels, std::ranges::not_equal_to());
  if (!has_classes || differ != source.labels.end()) return {};
  const uint32_t label = source.labels[0];
  const std::string name =
      label < split.classes.size() ? split.classes[label] : std::to_string(label);
  return {file.string() + ": all samples are of the class '" + name +
          "'; a classifier needs two or more"};
}

struct DatasetArguments {
  std::vector<fs::path> sources;  // one; two for samples and labels; any number for text
  fs::path output;
  Split split = Split::Train;
  uint64_t shards = 0;
  std::string shard_size;
  SplitShares shares;
  ImportOptions import;
  TextOptions text;
  std::vector<std::string> sizes = {};  // of pictures, as in columns.txt

  void add_sizes(const std::string& line) {
    sizes.push_back(line);
    import.reshaping = reshaping_in(sizes);
  }
  const fs::path& source() const { return sources[0]; }
  fs::path labels() const { return sources.size() > 1 ? sources[1] : fs::path(); }
  bool has_shares() const { return shares.test > 0 || shares.validation > 0; }
};

uint64_t num_shards(const DatasetArguments& arguments, const SampleSource& source) {
  if (arguments.shard_size.empty()) return arguments.shards;
  return shards_of_at_most(parse_size(arguments.shard_size), source);
}

/// A split that has been written.
struct WrittenSplit {
  fs::path file;
  std::vector<fs::path> files;  ///< including shards
  uint64_t samples = 0, shards = 0;
};

WrittenSplit write_split(const DatasetArguments& arguments, Split split,
                         const SampleSource& source) {
  const std::string name = split_name(split);
  WrittenSplit written{{}, {}, source.size(), num_shards(arguments, source)};
  if (written.shards == 0) {
    written.file = arguments.output / (name + ".dlset");
    write_binary_dataset(written.file, source, 0, source.size());
  } else {
    written.file = arguments.output / shard_index_name(name);
    for (const Shard& shard :
         write_sharded_dataset(arguments.output, name, source, written.shards)) {
      written.files.push_back(arguments.output / shard.file);
    }
  }
  written.files.push_back(written.file);
  return written;
}

using NamedSources = std::vector<std::pair<Split, SampleSource>>;

/// Writes all splits; if one fails, removes the others.
std::vector<WrittenSplit> write_splits(const DatasetArguments& arguments,
                                       const NamedSources& sources) {
  std::vector<WrittenSplit> written;
  try {
    for (const auto& [split, source] : sources) {
      written.push_back(write_split(arguments, split, source));
    }
  } catch (...) {
    std::error_code ignored;
    for (const WrittenSplit& split : written) {
      for (const fs::path& file : split.files) fs::remove(file, ignored);
    }
    throw;
  }
  return written;
}

using NamedParts = std::map<Split, std::vector<size_t>>;

/// The whole source as `split`, or its `parts`.
NamedSources sources_of(Split split, const NamedParts& parts, const SampleSource& source) {
  if (parts.empty()) return {{split, source}};
  NamedSources sources;
  for (const auto& [part, samples] : parts) sources.emplace_back(part, part_of(source, samples));
  return sources;
}

void require_no_split(const fs::path& folder, Split split) {
  if (const auto old = find_split(folder, split)) {
    throw Error(Errc::InvalidInput,
                old->files[0].string() + " already exists; remove it, or choose another folder");
  }
}

/// The parts for `--test-share` and `--validation-share`.
NamedParts parts_of(const DatasetArguments& arguments, const ImportedSplit& imported) {
  if (!arguments.has_shares()) return {};
  std::vector<std::string> names = imported.names;
  if (is_table(arguments.source())) {
    for (size_t row = 1; row <= imported.source.size(); ++row) {
      names.push_back(std::to_string(row));
    }
  }
  if (names.empty()) {
    throw Error(Errc::InvalidInput,
                "--test-share and --validation-share divide pictures and documents by their names, "
                "and rows of tables by their numbers; the samples of " +
                    arguments.source().string() +
                    " have neither: pack each split separately, with --split");
  }
  return split_by_name(names, arguments.shares);
}

Json to_json(const WrittenSplit& written, const SampleSource& source) {
  return {{"file", written.file.string()}, {"samples", written.samples},
          {"classes", source.num_classes}, {"targets", source.num_targets},
          {"masks", source.has_masks},     {"shards", written.shards}};
}

void print(const WrittenSplit& written) {
  const auto format = written.shards == 0 ? SplitFiles::Format::Binary : SplitFiles::Format::Shards;
  std::printf("%s: %s%s\n", written.file.c_str(),
              description_of(overview({format, {written.file}})).c_str(),
              written.shards == 0 ? "" : (", " + plural(written.shards, "shard")).c_str());
}

/// Throws if there are options for sources other than text.
void require_text_alone(const DatasetArguments& arguments) {
  const ImportOptions& import = arguments.import;
  const bool has_columns = !import.columns.targets.empty() || !import.columns.features.empty();
  if (has_columns || import.reshaping.given() || import.ignored || import.keeps_jpeg) {
    throw Error(Errc::InvalidInput,
                "--tokens and --tokenizer are for text: --target and --features are for tables of "
                "numbers, --resize, --crop, --keep-jpeg and --ignore for pictures");
  }
}

/// The number of classes of samples; 0 if they have none.
uint32_t classes_of(const TextSplit& split) {
  return split.source.vocabulary > 0 ? split.source.num_classes : 0;
}

uint32_t vocabulary_of(const TextSplit& split) {
  return split.source.vocabulary > 0 ? split.source.vocabulary : split.source.num_classes;
}

bool is_unequal(const TextSplit& split) { return split.source.pixel_type == PixelType::Token; }

Json to_json(const WrittenSplit& written, const TextSplit& split) {
  return {{"file", written.file.string()},
          {"samples", written.samples},
          {"length", split.source.shape.width},
          {"vocabulary", vocabulary_of(split)},
          {"classes", classes_of(split)},
          {"documents", split.num_documents},
          {"bytes", split.num_bytes},
          {"bytes_per_token", split.bytes_per_token()},
          {"left_over", split.left_over},
          {"unequal", is_unequal(split)},
          {"tokens", split.num_tokens},
          {"cut", split.num_cut},
          {"shards", written.shards}};
}

/// The word for one text of the source.
const char* unit_of(const TextOptions& options) {
  if (options.per == TextOptions::Per::Line) return "line";
  return options.column.empty() ? "document" : "row";
}

void print(const WrittenSplit& written, const TextSplit& split, const TextOptions& options) {
  const uint32_t length = split.source.shape.width;
  const std::string cut =
      is_unequal(split)
          ? fmt::format(", {} cut at {} tokens", format_count(split.num_cut), format_count(length))
          : "";
  std::printf("%s: %s; %s %s%s%s, %s token%s left over\n", written.file.c_str(),
              describe_tokens(
                  {written.samples, length, is_unequal(split), split.num_tokens, classes_of(split)},
                  vocabulary_of(split), split.bytes_per_token())
                  .c_str(),
              format_count(split.num_documents).c_str(), unit_of(options),
              split.num_documents == 1 ? "" : "s", cut.c_str(),
              format_count(split.left_over).c_str(), split.left_over == 1 ? "" : "s");
}

void pack_text(Session& session, const DatasetArguments& arguments) {
  require_text_alone(arguments);
  TextOptions options = arguments.text;
  options.label_column = arguments.import.columns.label;
  const TokenizedText text =
      tokenize(arguments.sources, options, arguments.split, arguments.shares, arguments.output);
  const fs::path classes = arguments.output / kClassNames;
  require_same_names(classes, text.classes, "classes", "give both splits the same classes");
  NamedSources sources;
  for (const TextSplit& split : text.splits) {
    num_shards(arguments, split.source);  // throws if no sample fits in a shard
    sources.emplace_back(split.split, split.source);
  }
  make_output_folder(arguments.output);
  const std::vector<WrittenSplit> written = write_splits(arguments, sources);
  if (!text.tokenizer.empty()) {
    write_output(arguments.output / kTokenizerFile, text.tokenizer);
  }
  write_names(classes, text.classes);
  if (!options.column.empty()) {
    write_names(arguments.output / kColumnNames, {"text " + options.column});
  }
  if (!session.quiet) print_notes(text.notes);
  Json all = Json::array();
  for (size_t i = 0; i < written.size(); ++i) {
    all.push_back(to_json(written[i], text.splits[i]));
    if (!session.json && !session.quiet) print(written[i], text.splits[i], options);
  }
  if (session.json) print_json(arguments.has_shares() ? all : all[0]);
}

/// Throws if there are options for text, or files other than samples and labels.
void require_no_text(const DatasetArguments& arguments) {
  const bool has_text_column = !arguments.text.column.empty();
  if (arguments.text.length || arguments.text.pattern || arguments.text.labels || has_text_column ||
      arguments.text.per != TextOptions::Per::Length) {
    throw Error(Errc::InvalidInput,
                "--text, --length, --per, --labels and --pattern are for text; add --tokens if the "
                "source is text");
  }
  if (arguments.sources.size() <= 2) return;
  throw Error(Errc::InvalidInput,
              std::to_string(arguments.sources.size()) +
                  " sources: only text may have more than two; add --tokens if they are text");
}

/// Copies the tokenizer beside tokens that are packed again.
void copy_tokenizer(const DatasetArguments& arguments, const Vocabulary& vocabulary) {
  if (vocabulary.has_bytes_alone()) return;
  write_output(arguments.output / kTokenizerFile, read_file(arguments.source() / kTokenizerFile));
}

void pack_samples(Session& session, const DatasetArguments& arguments) {
  require_no_text(arguments);
  ImportedSplit imported =
      open_source(arguments.source(), arguments.labels(), arguments.split, arguments.import);
  if (!arguments.sizes.empty()) imported.columns = arguments.sizes;
  const SampleSource& source = imported.source;
  const fs::path classes = arguments.output / kClassNames,
                 columns = arguments.output / kColumnNames;
  take_known_classes(classes, imported);
  require_same_names(classes, imported.classes, "classes", "give both splits the same classes");
  require_same_names(columns, imported.columns, arguments.sizes.empty() ? "columns" : "sizes",
                     "give both splits the same --features and --target, or --resize and --crop");
  const NamedParts parts = parts_of(arguments, imported);
  num_shards(arguments, source);  // throws if no sample fits in a shard
  std::optional<Vocabulary> vocabulary;
  if (!source.tokenizer.empty()) {
    vocabulary = read_vocabulary(source.tokenizer, arguments.source());
  }
  make_output_folder(arguments.output);
  std::vector<WrittenSplit> written;
  write_checked(source, arguments.source().string(), [&](const SampleSource& checked) {
    written = write_splits(arguments, sources_of(arguments.split, parts, checked));
  });
  if (vocabulary) copy_tokenizer(arguments, *vocabulary);
  write_names(classes, imported.classes);
  write_names(columns, imported.columns);
  if (!session.quiet) {
    if (imported.notes) print_notes(imported.notes());
    if (arguments.split == Split::Train) {
      print_notes(notes_on_learning(arguments.source(), imported));
    }
  }
  if (session.json) {
    Json all = Json::array();
    for (const WrittenSplit& split : written) all.push_back(to_json(split, source));
    return print_json(parts.empty() ? all[0] : all);
  }
  if (session.quiet) return;
  for (const WrittenSplit& split : written) print(split);
}

void pack_dataset(Session& session, const DatasetArguments& arguments) {
  if (arguments.shares.test + arguments.shares.validation >= 1) {
    throw Error(Errc::InvalidInput,
                "--test-share and --validation-share leave no samples for training");
  }
  require_no_split(arguments.output, arguments.split);
  if (arguments.shares.test > 0) require_no_split(arguments.output, Split::Test);
  if (arguments.shares.validation > 0) require_no_split(arguments.output, Split::Validation);
  if (arguments.text.given()) return pack_text(session, arguments);
  pack_samples(session, arguments);
}

/// The columns of a table to use.
void add_table_options(CLI::App& command, DatasetArguments& arguments) {
  add_value(command, "--target", "COLUMN", arguments.import.columns.targets,
            "column of a table with numbers to learn; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_value(command, "--class", "COLUMN", arguments.import.columns.label,
            "column of a table with the classes");
  add_value(command, "--features", "COLUMN,…", arguments.import.columns.features,
            "columns that the network reads; all others unless given")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

/// The processing of pictures.
void add_picture_options(CLI::App& command, DatasetArguments& arguments) {
  command
      .add_option_function<std::string>(
          "--resize",
          [&arguments](const std::string& text) { arguments.add_sizes("resize " + text); },
          "resize pictures: the shorter side to N, or all to WxH")
      ->type_name("N|WxH");
  command
      .add_option_function<std::string>(
          "--crop", [&arguments](const std::string& text) { arguments.add_sizes("crop " + text); },
          "crop the centre of pictures, after resizing")
      ->type_name("N|WxH");
  command.add_flag("--keep-jpeg", arguments.import.keeps_jpeg,
                   "keep pictures as JPEG files, which are decoded, resized and cut when they are "
                   "loaded");
  add_value(command, "--ignore", "VALUE", arguments.import.ignored,
            "value of masks that is not a class, such as 255; such pixels are ignored");
}

/// The processing of text.
void add_text_options(CLI::App& command, DatasetArguments& arguments) {
  CLI::Option* tokens = add_value(command, "--tokens", "bytes", arguments.text.tokens,
                                  "the sources are text, whose bytes are the tokens");
  add_value(command, "--tokenizer", "FILE", arguments.text.tokenizer,
            "the sources are .npy arrays of tokens, made by this SentencePiece model")
      ->check(CLI::ExistingFile)
      ->excludes(tokens);
  add_value(command, "--length", "N", arguments.text.length,
            "tokens per sample of text, or with --per the maximum; 256 unless "
            "given")
      ->check(CLI::Range(2, 1 << 20));
  command
      .add_option_function<std::string>(
          "--per",
          [&arguments](const std::string& word) {
            arguments.text.per =
                word == "line" ? TextOptions::Per::Line : TextOptions::Per::Document;
          },
          "make each document, or each line, a sample of its own length")
      ->type_name("document|line")
      ->check(CLI::IsMember({"document", "line"}));
  command
      .add_option_function<std::string>(
          "--labels", [&arguments](const std::string&) { arguments.text.labels = true; },
          "with --per, give each document or line the class that its folder names")
      ->type_name("folders")
      ->check(CLI::IsMember({"folders"}));
  add_value(command, "--text", "COLUMN", arguments.text.column,
            "column of a table with the texts, one document per row; with --class, one sample per "
            "row, of that class");
  add_value(command, "--pattern", "GLOB", arguments.text.pattern,
            "pattern of the files in folders to take; *.txt unless given, with --tokenizer *.npy");
}

/// The splits to write.
void add_split_options(CLI::App& command, DatasetArguments& arguments) {
  const auto add_share = [&command](const char* name, double& share, const char* help) {
    return add_value(command, name, "SHARE", share, help)->check(CLI::Range(0.0, 1.0));
  };
  CLI::Option* test_share = add_share(
      "--test-share", arguments.shares.test,
      "write this share of the pictures, documents or rows, chosen by their names, as the test "
      "split, and the others for training");
  CLI::Option* validation_share = add_share("--validation-share", arguments.shares.validation,
                                            "the same, as the validation split");
  command
      .add_option_function<std::string>(
          "--split",
          [&arguments](const std::string& word) {
            for (const Split split : {Split::Train, Split::Validation, Split::Test}) {
              if (word == split_name(split)) arguments.split = split;
            }
          },
          "train unless given")
      ->check(CLI::IsMember({"train", "validation", "test"}))
      ->excludes(test_share)
      ->excludes(validation_share);
}

}  // namespace

void declare_data_pack(CLI::App& data, Session& session) {
  CLI::App* command = add_command(
      data, "pack",
      "Write a split as .dlset: from a folder of pictures by class, or of pictures with masks, a "
      "table in a CSV file, text, .npy arrays or IDX files.",
      R"(
  dlflow data pack pictures/train -o digits
  dlflow data pack photos -o birds --resize 256 --crop 224 --test-share 0.1
  dlflow data pack photos -o birds --resize 256 --crop 224 --keep-jpeg
  dlflow data pack streets -o roads --ignore 0
  dlflow data pack images.npy labels.npy -o digits --split test
  dlflow data pack houses.csv -o houses --target price
  dlflow data pack stories -o tokens --tokens bytes --test-share 0.05
  dlflow data pack tokens.npy -o set --tokenizer pieces.model --length 128
  dlflow data pack reviews.txt -o reviews --tokens bytes --per line --length 512
  dlflow data pack news -o set --tokens bytes --per document --labels folders
  dlflow data pack fashion-mnist -o fashion --shard-size 256MiB)");
  const auto arguments = std::make_shared<DatasetArguments>();
  command
      ->add_option(
          "source", arguments->sources,
          "a folder, a table, or a file of images followed by one of labels, targets or masks; "
          "or files and folders of text")
      ->required();
  add_table_options(*command, *arguments);  // kept by the callback below
  add_value(*command, "-o,--output", "FOLDER", arguments->output, "the folder of the data set")
      ->required();
  add_picture_options(*command, *arguments);
  add_text_options(*command, *arguments);
  add_split_options(*command, *arguments);
  CLI::Option* shards = add_value(*command, "--shards", "N", arguments->shards, "number of files");
  shards->check(CLI::PositiveNumber);
  add_value(*command, "--shard-size", "SIZE", arguments->shard_size, "maximum size of each file")
      ->excludes(shards);
  add_json_option(*command, session);
  command->callback([&session, arguments] { pack_dataset(session, *arguments); });
}

}  // namespace dlflow
