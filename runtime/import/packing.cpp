#include "runtime/import/packing.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/output_file.h"
#include "base/text.h"
#include "runtime/data/binary_format.h"
#include "runtime/data/names.h"
#include "runtime/data/sharded_dataset.h"
#include "runtime/data/split_files.h"
#include "runtime/import/checked_samples.h"
#include "runtime/import/reshape.h"
#include "runtime/text/token_samples.h"
#include "runtime/text/vocabulary.h"

namespace dlflow::runtime {
namespace {

namespace fs = std::filesystem;
using NamedParts = std::map<Split, std::vector<size_t>>;

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
  const auto plain = [](std::vector<std::string> lines) {
    for (std::string& line : lines) line.erase(std::min(line.find(" {\""), line.size()));
    return lines;
  };
  const bool differ = plain(before) != plain(names);  // not only in codings
  throw Error(Errc::InvalidInput, file.string() + " has the " + what + " " +
                                      join(differ ? plain(before) : before, ", ") +
                                      ", but the source has " +
                                      join(differ ? plain(names) : names, ", ") + "; " + advice);
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

/// Takes the features of the training split and their codings, unless the options name others.
void take_known_features(const Packing& packing, TableColumns& columns) {
  if (packing.split == Split::Train) return;
  const std::vector<Feature> known = features_of(read_names(packing.output / kColumnNames));
  if (known.empty() && (!columns.categories.empty() || columns.missing == Missing::Mean)) {
    throw Error(Errc::InvalidInput,
                "the numbers of categories, and means for empty cells, are those of the training "
                "rows; pack "
                "the training split first, or all splits at once with --test-share");
  }
  std::vector<std::string> names;
  for (const Feature& feature : known) names.push_back(feature.column);
  if (columns.features.empty()) columns.features = names;
  if (columns.features == names) columns.known = known;
}

/// The parts for `shares`; empty without shares.
NamedParts parts_of(const Packing& packing, const ImportedSplit& imported) {
  if (!packing.shares.given()) return {};
  if (!imported.names.empty()) return split_by_name(imported.names, packing.shares);
  throw Error(Errc::InvalidInput,
              "--test-share and --validation-share divide pictures and documents by their names, "
              "and rows of tables by their numbers; the samples of " +
                  packing.source.string() +
                  " have neither: pack each split separately, with --split");
}

/// The whole source as `split`, or its `parts`.
NamedSources sources_of(Split split, const NamedParts& parts, const SampleSource& source) {
  if (parts.empty()) return {{split, source}};
  NamedSources sources;
  for (const auto& [part, samples] : parts) sources.emplace_back(part, part_of(source, samples));
  return sources;
}

/// Notes why training on `file` is useless: it has only one sample, or one class; or that one of
/// `parts` lacks a class.
void add_notes(std::vector<std::string>& notes, const fs::path& file, const ImportedSplit& split,
               const NamedParts& parts) {
  const SampleSource& source = split.source;
  if (source.size() == 1) {
    notes.push_back(file.string() + ": has one sample, from which a network cannot generalise");
  }
  if (source.size() == 1 || source.num_targets > 0 || source.has_masks || !source.tokenizer.empty())
    return;
  const auto name_of = [&](uint32_t label) {
    return "'" + (label < split.classes.size() ? split.classes[label] : std::to_string(label)) +
           "'";
  };
  if (std::ranges::adjacent_find(source.labels, std::ranges::not_equal_to()) ==
      source.labels.end()) {
    notes.push_back(file.string() + ": all samples are of the class " + name_of(source.labels[0]) +
                    "; a classifier needs two or more");
  }
  for (const auto& [part, samples] : parts) {
    std::vector<bool> has(source.num_classes);
    for (const size_t sample : samples) has[source.labels[sample]] = true;
    const size_t missing = size_t(std::ranges::count(has, false));
    if (missing == 0) continue;
    const auto first = uint32_t(std::ranges::find(has, false) - has.begin());
    notes.push_back(
        fmt::format("the {} split has no sample of the class {}{}; add samples, or "
                    "choose another share",
                    split_name(part), name_of(first),
                    missing == 1 ? "" : fmt::format(" and {} more", missing - 1)));
  }
}

/// Writes no file if there are no names.
void write_names(const fs::path& file, const std::vector<std::string>& names) {
  if (!names.empty()) write_output(file, join(names, "\n") + "\n");
}

uint64_t num_shards(const Packing& packing, const SampleSource& source) {
  return packing.shard_bytes > 0 ? shards_of_at_most(packing.shard_bytes, source) : packing.shards;
}

WrittenSplit write_split(const Packing& packing, Split split, const SampleSource& source) {
  const std::string name = split_name(split);
  WrittenSplit written{{}, source.size(), num_shards(packing, source)};
  if (written.shards == 0) {
    written.file = packing.output / (name + ".dlset");
    write_binary_dataset(written.file, source, 0, source.size());
  } else {
    written.file = packing.output / shard_index_name(name);
    for (const Shard& shard : write_sharded_dataset(packing.output, name, source, written.shards)) {
      written.files.push_back(packing.output / shard.file);
    }
  }
  written.files.push_back(written.file);
  return written;
}

}  // namespace

void Packing::add_size(const std::string& line) {
  sizes.push_back(line);
  import.reshaping = reshaping_in(sizes);
}

void require_new_splits(const Packing& packing) {
  if (packing.shares.test + packing.shares.validation >= 1) {
    throw Error(Errc::InvalidInput,
                "--test-share and --validation-share leave no samples for training");
  }
  for (const Split split : {Split::Train, Split::Validation, Split::Test}) {
    const bool is_written = split == packing.split ||
                            (split == Split::Test && packing.shares.test > 0) ||
                            (split == Split::Validation && packing.shares.validation > 0);
    const auto old = is_written ? find_split(packing.output, split) : std::nullopt;
    if (!old) continue;
    throw Error(Errc::InvalidInput,
                old->files[0].string() + " already exists; remove it, or choose another folder");
  }
}

std::vector<WrittenSplit> write_splits(const Packing& packing, const NamedSources& sources,
                                       const std::vector<std::string>& classes,
                                       const std::vector<std::string>& columns) {
  const fs::path class_file = packing.output / kClassNames,
                 column_file = packing.output / kColumnNames;
  require_same_names(class_file, classes, "classes", "give both splits the same classes");
  require_same_names(column_file, columns, packing.sizes.empty() ? "columns" : "sizes",
                     "give both splits the same --features and --target, or --resize and --crop");
  for (const auto& [split, source] : sources) num_shards(packing, source);  // throws if none fits
  make_output_folder(packing.output);
  std::vector<WrittenSplit> written;
  try {
    for (const auto& [split, source] : sources) {
      written.push_back(write_split(packing, split, source));
    }
  } catch (...) {
    std::error_code ignored;
    for (const WrittenSplit& split : written) {
      for (const fs::path& file : split.files) fs::remove(file, ignored);
    }
    throw;
  }
  write_names(class_file, classes);
  write_names(column_file, columns);
  return written;
}

PackedSplits pack(Packing packing) {
  packing.import.columns.shares = packing.shares;
  if (is_table(packing.source)) take_known_features(packing, packing.import.columns);
  ImportedSplit imported =
      open_source(packing.source, packing.labels, packing.split, packing.import);
  if (!packing.sizes.empty()) imported.columns = packing.sizes;
  const SampleSource& source = imported.source;
  take_known_classes(packing.output / kClassNames, imported);
  const NamedParts parts = parts_of(packing, imported);
  std::optional<Vocabulary> vocabulary;
  if (!source.tokenizer.empty()) vocabulary = read_vocabulary(source.tokenizer, packing.source);
  PackedSplits packed;
  write_checked(source, packing.source.string(), [&](const SampleSource& checked) {
    packed.splits = write_splits(packing, sources_of(packing.split, parts, checked),
                                 imported.classes, imported.columns);
  });
  if (vocabulary && !vocabulary->has_bytes_alone()) {
    write_output(packing.output / kTokenizerFile, read_file(packing.source / kTokenizerFile));
  }
  if (imported.notes) packed.notes = imported.notes();
  if (packing.split == Split::Train) add_notes(packed.notes, packing.source, imported, parts);
  packed.source = std::move(imported.source);
  return packed;
}

}  // namespace dlflow::runtime
