#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/cli/commands.h"
#include "runtime/data/binary_dataset.h"
#include "runtime/data/names.h"
#include "runtime/data/sharded_dataset.h"
#include "runtime/data/split_files.h"
#include "runtime/import/checked_samples.h"
#include "runtime/import/sources.h"
#include "runtime/import/split_by_name.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using namespace runtime;

struct DatasetArguments {
  fs::path source, labels, output;
  Split split = Split::Train;
  uint64_t shards = 0;
  std::string shard_size;
  std::optional<double> test_share;
  ImportOptions import;
};

/// "60,000 samples of 1 x 28 x 28 bytes in 10 classes", "506 samples of 13 floats with 1 target"
std::string describe(uint64_t samples, const ImageShape& shape, bool floats, uint32_t classes,
                     uint32_t targets) {
  const bool is_table = shape.height == 1 && shape.width == 1;
  const std::string size =
      is_table ? std::to_string(shape.channels)
               : fmt::format("{} x {} x {}", shape.channels, shape.height, shape.width);
  const std::string answers =
      targets > 0 ? fmt::format("with {} target{}", targets, targets == 1 ? "" : "s")
                  : fmt::format("in {} classes", classes);
  return fmt::format("{} samples of {} {} {}", format_count(samples), size,
                     floats ? "floats" : "bytes", answers);
}

/// Two splits whose labels mean different classes, or whose columns differ, would give a bad
/// accuracy and no error.
void require_same_names(const fs::path& file, const std::vector<std::string>& names,
                        const std::string& what, const std::string& advice) {
  if (names.empty()) return;
  const std::vector<std::string> before = read_names(file);
  if (before.empty() || before == names) return;
  throw Error(Errc::InvalidInput, file.string() + " has the " + what + " " + join(before, ", ") +
                                      ", the source has " + join(names, ", ") + "; " + advice);
}

void write_names(const fs::path& file, const std::vector<std::string>& names) {
  if (!names.empty()) write_file_atomic(file, join(names, "\n") + "\n");
}

uint64_t num_shards(const DatasetArguments& arguments, const SampleSource& source) {
  if (arguments.shard_size.empty()) return arguments.shards;
  return shards_of_at_most(parse_size(arguments.shard_size), source);
}

/// A split that is written, and what it has.
struct WrittenSplit {
  fs::path file;
  std::vector<fs::path> files;  ///< all of them
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

/// One split, or both; if one cannot be written, none stays.
std::vector<WrittenSplit> write_splits(const DatasetArguments& arguments,
                                       const std::optional<NamedParts>& parts,
                                       const SampleSource& source) {
  if (!parts) return {write_split(arguments, arguments.split, source)};
  std::vector<WrittenSplit> written;
  written.push_back(write_split(arguments, Split::Train, part_of(source, parts->train)));
  try {
    written.push_back(write_split(arguments, Split::Test, part_of(source, parts->test)));
  } catch (...) {
    std::error_code ignored;
    for (const fs::path& file : written[0].files) fs::remove(file, ignored);
    throw;
  }
  return written;
}

void require_no_split(const fs::path& folder, Split split) {
  if (const auto old = find_split(folder, split)) {
    throw Error(Errc::InvalidInput,
                old->files[0].string() + " is there already; remove it, or choose another folder");
  }
}

/// What `--test-share` asks for.
std::optional<NamedParts> parts_of(const DatasetArguments& arguments,
                                   const ImportedSplit& imported) {
  if (!arguments.test_share) return std::nullopt;
  if (imported.names.empty()) {
    throw Error(Errc::InvalidInput,
                "--test-share divides pictures by their names; the samples of " +
                    arguments.source.string() +
                    " have none: pack each split of its own, with --split");
  }
  return split_by_name(imported.names, *arguments.test_share);
}

Json to_json(const WrittenSplit& written, const SampleSource& source) {
  return {{"file", written.file.string()},
          {"samples", written.samples},
          {"classes", source.num_classes},
          {"targets", source.num_targets},
          {"shards", written.shards}};
}

void print(const WrittenSplit& written, const SampleSource& source) {
  std::printf(
      "%s: %s%s\n", written.file.c_str(),
      describe(written.samples, source.shape, source.pixel_type == PixelType::Float,
               source.num_classes, source.num_targets)
          .c_str(),
      written.shards == 0
          ? ""
          : fmt::format(", {} shard{}", written.shards, written.shards == 1 ? "" : "s").c_str());
}

void pack_dataset(Session& session, const DatasetArguments& arguments) {
  require_no_split(arguments.output, arguments.split);
  if (arguments.test_share) require_no_split(arguments.output, Split::Test);
  const ImportedSplit imported =
      open_source(arguments.source, arguments.labels, arguments.split, arguments.import);
  const SampleSource& source = imported.source;
  const fs::path classes = arguments.output / kClassNames,
                 columns = arguments.output / kColumnNames;
  require_same_names(classes, imported.classes, "classes", "give both splits the same classes");
  require_same_names(columns, imported.columns, "columns",
                     "name the same --features and --target for both splits");
  const std::optional<NamedParts> parts = parts_of(arguments, imported);
  num_shards(arguments, source);  // throws for a size in which no sample fits
  make_directories(arguments.output);
  std::vector<WrittenSplit> written;
  write_checked(source, arguments.source.string(), [&](const SampleSource& checked) {
    written = write_splits(arguments, parts, checked);
  });
  write_names(classes, imported.classes);
  write_names(columns, imported.columns);
  if (session.json) {
    Json all = Json::array();
    for (const WrittenSplit& split : written) all.push_back(to_json(split, source));
    return print_json(parts ? all : all[0]);
  }
  if (session.quiet) return;
  for (const WrittenSplit& split : written) print(split, source);
}

/// The splits that `path` names: a folder, a .dlset, or an index of shards.
std::vector<SplitFiles> splits_at(const fs::path& path) {
  using Format = SplitFiles::Format;
  if (path.extension() == ".dlset") return {{Format::Binary, {path}}};
  if (path.string().ends_with(shard_index_name(""))) return {{Format::Shards, {path}}};
  std::vector<SplitFiles> splits;
  for (const Split split : {Split::Train, Split::Test}) {
    if (auto found = find_split(path, split)) splits.push_back(std::move(*found));
  }
  if (splits.empty()) split_files(path, Split::Train);  // throws what was looked for
  return splits;
}

/// Reads all of it; what is wrong, one line for each file.
std::vector<std::string> mistakes_in(const SplitFiles& split) {
  std::vector<std::string> mistakes;
  const auto note = [&](const auto& read) {
    try {
      read();
    } catch (const Error& error) {
      mistakes.emplace_back(error.what());
    }
  };
  const fs::path& file = split.files[0];
  if (split.format != SplitFiles::Format::Shards) {
    note([&] { read_split(split, Proof::Hash); });
    return mistakes;
  }
  for (const Shard& shard : read_shard_index(file)) {
    note([&] { read_shard(file, shard, Proof::Hash); });
  }
  if (mistakes.empty()) note([&] { read_sharded_dataset(file, Proof::Structure); });
  return mistakes;
}

void verify(Session& session, const std::vector<std::string>& paths) {
  Json list = Json::array();
  for (const std::string& path : paths) {
    for (const SplitFiles& split : splits_at(path)) {
      const std::vector<std::string> mistakes = mistakes_in(split);
      if (!mistakes.empty()) session.status = kStepFailed;
      list.push_back({{"file", split.files[0].string()}, {"mistakes", mistakes}});
      if (session.json) continue;
      for (const std::string& mistake : mistakes)
        std::printf("%s\n", escaped_lines(mistake).c_str());
      if (mistakes.empty() && !session.quiet) std::printf("%s: good\n", split.files[0].c_str());
    }
  }
  if (session.json) print_json(list);
}

/// The values of a target over all samples.
struct TargetRange {
  std::string name;  ///< of its column, if it has one
  double smallest = INFINITY, largest = -INFINITY, sum = 0, squares = 0;

  void add(double value) {
    smallest = std::min(smallest, value);
    largest = std::max(largest, value);
    sum += value;
    squares += value * value;
  }
};

/// The targets of `dataset`, with the names that stand beside it.
std::vector<TargetRange> ranges_of(const Dataset& dataset, const fs::path& folder) {
  constexpr std::string_view kBegin = "target ";
  std::vector<TargetRange> ranges(dataset.num_targets);
  for (size_t i = 0; i < dataset.targets.size(); ++i) {
    for (size_t k = 0; k < ranges.size(); ++k) ranges[k].add(double(dataset.targets[i][k]));
  }
  size_t named = 0;
  for (const std::string& line : read_names(folder / kColumnNames)) {
    if (!line.starts_with(kBegin) || named == ranges.size()) continue;
    ranges[named++].name = line.substr(kBegin.size());
  }
  return ranges;
}

/// What `show` tells of a split.
struct Overview {
  fs::path file;
  Dataset dataset;
  std::vector<uint64_t> histogram;  ///< samples of each class
  std::vector<std::string> names;   ///< of classes, as far as they have any
  std::vector<TargetRange> targets;
  uint64_t bytes = 0;
  ShardIndex shards;

  bool has_floats() const { return std::holds_alternative<Images<float>>(dataset.pixels); }
};

Overview overview(const SplitFiles& split) {
  Overview result;
  result.file = split.files[0];
  result.dataset = read_split(split, Proof::Structure);
  result.histogram.resize(result.dataset.num_classes);
  const Labels& labels = result.dataset.labels;
  for (size_t i = 0; i < labels.size(); ++i) ++result.histogram[labels[i]];
  result.targets = ranges_of(result.dataset, result.file.parent_path());
  result.names = read_names(result.file.parent_path() / kClassNames);
  result.names.resize(result.histogram.size());
  if (split.format == SplitFiles::Format::Shards) {
    result.shards = read_shard_index(result.file);
    for (const Shard& shard : result.shards) {
      result.bytes += fs::file_size(result.file.parent_path() / shard.file);
    }
  } else {
    for (const fs::path& file : split.files) result.bytes += fs::file_size(file);
  }
  return result;
}

double deviation_of(const TargetRange& target, double num_samples) {
  const double mean = target.sum / num_samples;
  return std::sqrt(std::max(0.0, target.squares / num_samples - mean * mean));
}

Json to_json(const Overview& split) {
  Json classes = Json::array(), shards = Json::array(), targets = Json::array();
  const double num_samples = double(split.dataset.size());
  for (const TargetRange& target : split.targets) {
    targets.push_back({{"name", target.name.empty() ? Json() : Json(target.name)},
                       {"mean", target.sum / num_samples},
                       {"deviation", deviation_of(target, num_samples)},
                       {"min", target.smallest},
                       {"max", target.largest}});
  }
  for (size_t label = 0; label < split.histogram.size(); ++label) {
    const std::string& name = split.names[label];
    classes.push_back({{"label", label},
                       {"name", name.empty() ? Json() : Json(name)},
                       {"samples", split.histogram[label]}});
  }
  for (const Shard& shard : split.shards) {
    shards.push_back(
        {{"file", shard.file}, {"samples", shard.num_samples}, {"sha256", shard.sha256}});
  }
  const ImageShape& shape = split.dataset.shape;
  return {{"file", split.file.string()}, {"samples", split.dataset.size()},
          {"channels", shape.channels},  {"height", shape.height},
          {"width", shape.width},        {"pixels", split.has_floats() ? "float" : "byte"},
          {"bytes", split.bytes},        {"classes", classes},
          {"targets", targets},          {"shards", shards}};
}

void print_targets(const Overview& split) {
  std::printf("\n\nTARGET        MEAN   DEVIATION         MIN         MAX  NAME\n");
  const double num_samples = double(split.dataset.size());
  for (size_t i = 0; i < split.targets.size(); ++i) {
    const TargetRange& target = split.targets[i];
    std::printf("%6zu  %10.4g  %10.4g  %10.4g  %10.4g%s%s\n", i, target.sum / num_samples,
                deviation_of(target, num_samples), target.smallest, target.largest,
                target.name.empty() ? "" : "  ", escaped(target.name).c_str());
  }
}

void print(const Overview& split) {
  std::printf("%s: %s, %s", split.file.c_str(),
              describe(split.dataset.size(), split.dataset.shape, split.has_floats(),
                       split.dataset.num_classes, split.dataset.num_targets)
                  .c_str(),
              format_size(split.bytes).c_str());
  if (!split.shards.empty()) {
    std::printf(" in %zu shard%s", split.shards.size(), split.shards.size() == 1 ? "" : "s");
  }
  if (!split.targets.empty()) return print_targets(split);
  std::printf("\n\nCLASS  SAMPLES  NAME\n");
  for (size_t label = 0; label < split.histogram.size(); ++label) {
    const std::string& name = split.names[label];
    std::printf("%5zu  %7s%s%s\n", label, format_count(split.histogram[label]).c_str(),
                name.empty() ? "" : "  ", escaped(name).c_str());
  }
}

void show(Session& session, const std::string& path) {
  Json all = Json::array();
  const std::vector<SplitFiles> splits = splits_at(path);
  for (const SplitFiles& split : splits) {
    const Overview one = overview(split);
    if (session.json) {
      all.push_back(to_json(one));
    } else {
      if (&split != &splits.front()) std::printf("\n");
      print(one);
    }
  }
  if (session.json) print_json(all);
}

void add_data_pack(CLI::App& data, Session& session) {
  CLI::App* command = add_command(
      data, "pack",
      "Write a split as .dlset: from a folder of pictures by class, a table in a CSV file, .npy "
      "arrays or IDX files.",
      "  dlflow data pack pictures/train -o digits\n"
      "  dlflow data pack photos -o birds --resize 256 --crop 224 --test-share 0.1\n"
      "  dlflow data pack images.npy labels.npy -o digits --split test\n"
      "  dlflow data pack houses.csv -o houses --target price\n"
      "  dlflow data pack fashion-mnist -o fashion --shard-size 256MiB");
  const auto arguments = std::make_shared<DatasetArguments>();
  command->add_option("source", arguments->source, "a folder, a table, or the file of images")
      ->required();
  command->add_option("labels", arguments->labels, "the file of labels or targets");
  command
      ->add_option("--target", arguments->import.columns.targets,
                   "column of a table with numbers to learn; may be given again")
      ->type_name("COLUMN")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option("--class", arguments->import.columns.label, "column of a table with the classes")
      ->type_name("COLUMN");
  command
      ->add_option("--features", arguments->import.columns.features,
                   "columns that the network reads; all others unless given")
      ->type_name("COLUMN,…")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("-o,--output", arguments->output, "the folder of the data set")
      ->type_name("FOLDER")
      ->required();
  command
      ->add_option_function<std::string>(
          "--resize",
          [arguments](const std::string& text) {
            const PictureSize size = parse_picture_size(text, "--resize");
            if (text.find('x') == text.npos) {
              arguments->import.reshaping.shorter_side = size.width;
            } else {
              arguments->import.reshaping.size = size;
            }
          },
          "resize pictures: the shorter side to N, or all to WxH")
      ->type_name("N|WxH");
  command
      ->add_option_function<std::string>(
          "--crop",
          [arguments](const std::string& text) {
            arguments->import.reshaping.crop = parse_picture_size(text, "--crop");
          },
          "cut the middle out of pictures, after resizing")
      ->type_name("N|WxH");
  CLI::Option* share =
      command
          ->add_option("--test-share", arguments->test_share,
                       "write both splits, with about this share of the pictures for the test, "
                       "chosen by their names")
          ->type_name("SHARE")
          ->check(CLI::Range(0.0, 1.0));
  command
      ->add_option_function<std::string>(
          "--split",
          [arguments](const std::string& word) {
            arguments->split = word == "test" ? Split::Test : Split::Train;
          },
          "train unless given")
      ->check(CLI::IsMember({"train", "test"}))
      ->excludes(share);
  CLI::Option* shards =
      command->add_option("--shards", arguments->shards, "number of files")->type_name("N");
  shards->check(CLI::PositiveNumber);
  command->add_option("--shard-size", arguments->shard_size, "maximum size of each file")
      ->type_name("SIZE")
      ->excludes(shards);
  add_json_option(*command, session);
  command->callback([&session, arguments] { pack_dataset(session, *arguments); });
}

}  // namespace

void add_data(CLI::App& app, Session& session) {
  CLI::App* data = add_command(app, "data", "Make data sets for training, and look at them.",
                               "  dlflow data pack pictures/train -o digits\n"
                               "  dlflow data show digits");
  data->require_subcommand(1);
  data->fallthrough();
  add_data_pack(*data, session);

  CLI::App* verify_command = add_command(
      *data, "verify", "Read data sets and say which files are not as they were written.",
      "  dlflow data verify digits\n"
      "  dlflow data verify digits/train-00003-of-00008.dlset");
  const auto paths = std::make_shared<std::vector<std::string>>();
  verify_command->add_option("path", *paths, "folders, .dlset or .shards.json files")->required();
  add_json_option(*verify_command, session);
  verify_command->callback([&session, paths] { verify(session, *paths); });

  CLI::App* show_command =
      add_command(*data, "show", "Print what a data set holds, without reading its images.",
                  "  dlflow data show digits\n"
                  "  dlflow data show digits/train.dlset --json");
  add_json_option(*show_command, session);
  const auto path = std::make_shared<std::string>();
  show_command->add_option("path", *path, "a folder, a .dlset or a .shards.json file")->required();
  show_command->callback([&session, path] { show(session, *path); });
}

}  // namespace dlflow
