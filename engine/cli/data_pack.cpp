#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/output_file.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/cli/commands.h"
#include "engine/cli/data_overview.h"
#include "engine/cli/text_data.h"
#include "runtime/data/split_files.h"
#include "runtime/import/packing.h"
#include "runtime/text/vocabulary.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using namespace runtime;

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    std::fprintf(stderr, "warning: %s\n", escaped(note).c_str());
  }
}

struct DatasetArguments {
  std::vector<fs::path> sources;  // one; two for samples and labels; any number for text
  Packing packing;
  std::string shard_size;
  TextOptions text;
};

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
void require_text_alone(const ImportOptions& import) {
  TableColumns columns = import.columns;
  columns.label.clear();  // a table of texts may have classes
  if (columns.given() || import.reshaping.given() || import.ignored || import.keeps_jpeg) {
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
  const Packing& packing = arguments.packing;
  require_text_alone(packing.import);
  TextOptions options = arguments.text;
  options.label_column = packing.import.columns.label;
  const TokenizedText text =
      tokenize(arguments.sources, options, packing.split, packing.shares, packing.output);
  NamedSources sources;
  for (const TextSplit& split : text.splits) sources.emplace_back(split.split, split.source);
  std::vector<std::string> columns;
  if (!options.column.empty()) columns.push_back("text " + options.column);
  const std::vector<WrittenSplit> written = write_splits(packing, sources, text.classes, columns);
  if (!text.tokenizer.empty()) write_output(packing.output / kTokenizerFile, text.tokenizer);
  if (!session.quiet) print_notes(text.notes);
  Json all = Json::array();
  for (size_t i = 0; i < written.size(); ++i) {
    all.push_back(to_json(written[i], text.splits[i]));
    if (!session.json && !session.quiet) print(written[i], text.splits[i], options);
  }
  if (session.json) print_json(packing.shares.given() ? all : all[0]);
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

void pack_samples(Session& session, const DatasetArguments& arguments) {
  require_no_text(arguments);
  const PackedSplits packed = pack(arguments.packing);
  if (!session.quiet) print_notes(packed.notes);
  Json all = Json::array();
  for (const WrittenSplit& split : packed.splits) {
    all.push_back(to_json(split, packed.source));
    if (!session.json && !session.quiet) print(split);
  }
  if (session.json) print_json(arguments.packing.shares.given() ? all : all[0]);
}

void pack_data(Session& session, DatasetArguments& arguments) {
  Packing& packing = arguments.packing;
  packing.source = arguments.sources[0];
  if (arguments.sources.size() > 1) packing.labels = arguments.sources[1];
  if (!arguments.shard_size.empty()) packing.shard_bytes = parse_size(arguments.shard_size);
  require_new_splits(packing);
  arguments.text.given() ? pack_text(session, arguments) : pack_samples(session, arguments);
}

/// Adds an option whose value is one of `words`.
template <class Value>
CLI::Option* add_choice(CLI::App& command, const std::string& name,
                        const std::map<std::string, Value>& words, Value& value,
                        const std::string& help) {
  const auto set = [words, &value](const std::string& word) { value = words.at(word); };
  return command.add_option_function<std::string>(name, set, help)->check(CLI::IsMember(words));
}

void add_table_options(CLI::App& command, TableColumns& columns) {
  const auto add_list = [&](const char* name, const char* type, auto& list, const char* help) {
    return add_value(command, name, type, list, help)
        ->delimiter(',')
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  add_repeated_option(command, "--target", "COLUMN", columns.targets,
                      "column of a table with numbers to learn; may be repeated");
  add_value(command, "--class", "COLUMN", columns.label, "column of a table with the classes");
  add_list("--features", "COLUMN,…", columns.features,
           "columns that the network reads; all others unless given");
  CLI::Option* categories = add_list(
      "--categories", "COLUMN,…", columns.categories,
      "features that are texts: each text of the training rows has a number, which is 1 in "
      "its rows and otherwise 0");
  add_value(command, "--hash", "N", columns.buckets,
            "categories with more than N texts: N numbers, of which a hash of the text chooses one")
      ->needs(categories)
      ->check(CLI::Range(1u, kMaxTextNumbers));
  add_choice<Missing>(
      command, "--missing",
      {{"mean", Missing::Mean}, {"drop", Missing::Drop}, {"refuse", Missing::Refuse}},
      columns.missing,
      "empty cells of features: take the mean of the training rows, drop such rows, or refuse "
      "the table; refuse unless given");
}

void add_picture_options(CLI::App& command, Packing& packing) {
  ImportOptions& import = packing.import;
  command
      .add_option_function<std::string>(
          "--resize", [&packing](const std::string& text) { packing.add_size("resize " + text); },
          "resize pictures: the shorter side to N, or all to WxH")
      ->type_name("N|WxH");
  command
      .add_option_function<std::string>(
          "--crop", [&packing](const std::string& text) { packing.add_size("crop " + text); },
          "crop the centre of pictures, after resizing")
      ->type_name("N|WxH");
  command.add_flag("--keep-jpeg", import.keeps_jpeg,
                   "keep pictures as JPEG files, which are decoded, resized and cut when they are "
                   "loaded");
  add_value(command, "--ignore", "VALUE", import.ignored,
            "value of masks that is not a class, such as 255; such pixels are ignored");
}

void add_text_options(CLI::App& command, TextOptions& text) {
  CLI::Option* tokens = add_value(command, "--tokens", "bytes", text.tokens,
                                  "the sources are text, whose bytes are the tokens");
  add_value(command, "--tokenizer", "FILE", text.tokenizer,
            "the sources are .npy arrays of tokens, made by this SentencePiece model")
      ->check(CLI::ExistingFile)
      ->excludes(tokens);
  add_value(command, "--length", "N", text.length,
            "tokens per sample of text, or with --per the maximum; 256 unless "
            "given")
      ->check(CLI::Range(2, 1 << 20));
  using Per = TextOptions::Per;
  add_choice<Per>(command, "--per", {{"document", Per::Document}, {"line", Per::Line}}, text.per,
                  "make each document, or each line, a sample of its own length");
  add_choice<bool>(command, "--labels", {{"folders", true}}, text.labels,
                   "with --per, give each document or line the class that its folder names");
  add_value(command, "--text", "COLUMN", text.column,
            "column of tables with the texts, each row a document; with --class, a sample of the "
            "class in that column");
  add_value(command, "--pattern", "GLOB", text.pattern,
            "pattern of the files in folders to take; *.txt unless given, with --tokenizer *.npy");
}

void add_split_options(CLI::App& command, Packing& packing) {
  const auto add_share = [&command](const char* name, double& share, const char* help) {
    return add_value(command, name, "SHARE", share, help)->check(CLI::Range(0.0, 1.0));
  };
  CLI::Option* test_share = add_share(
      "--test-share", packing.shares.test,
      "write this share of the pictures, documents or rows, chosen by their names, as the test "
      "split, and the others for training");
  CLI::Option* validation_share = add_share("--validation-share", packing.shares.validation,
                                            "the same, as the validation split");
  add_choice<Split>(
      command, "--split",
      {{"train", Split::Train}, {"validation", Split::Validation}, {"test", Split::Test}},
      packing.split, "train unless given")
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
  dlflow data pack t.csv -o set --class y --categories town --missing mean
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
  add_table_options(*command, arguments->packing.import.columns);  // kept by the callback below
  add_value(*command, "-o,--output", "FOLDER", arguments->packing.output,
            "the folder of the data set")
      ->required();
  add_picture_options(*command, arguments->packing);
  add_text_options(*command, arguments->text);
  add_split_options(*command, arguments->packing);
  CLI::Option* shards =
      add_value(*command, "--shards", "N", arguments->packing.shards, "number of files");
  shards->check(CLI::PositiveNumber);
  add_value(*command, "--shard-size", "SIZE", arguments->shard_size, "maximum size of each file")
      ->excludes(shards);
  add_json_option(*command, session);
  command->callback([&session, arguments] { pack_data(session, *arguments); });
}

}  // namespace dlflow
