#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/output_file.h"
#include "base/process.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/cli/commands.h"
#include "engine/cli/data_overview.h"
#include "engine/cli/findings_printer.h"
#include "runtime/data/binary_format.h"
#include "runtime/data/names.h"
#include "runtime/data/split_files.h"
#include "runtime/fit/fit.h"
#include "runtime/import/checked_samples.h"
#include "runtime/import/table.h"
#include "runtime/nn/model.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using namespace runtime;

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

/// Checks a split without computing anything; returns what to say of it.
std::string checked(const SplitFiles& split, const Model& model, const fs::path& set) {
  const Overview found = overview(split);
  require_fit(model, found.dataset, set.string());
  write_checked(source_of(found.dataset), split.files[0].string(), [](const SampleSource& samples) {
    for (size_t i = 0; i < samples.size(); ++i) samples.image(i);  // throws for NaN and infinity
  });
  std::vector<std::string> notes = {
      split.files[0].string() + ": " + description_of(found),
      note_on_classes(model, found.dataset, set.string()),
      note_on_constants(found.dataset, features_of(read_names(set / kColumnNames)))};
  std::erase(notes, "");
  return join(notes, "; ");
}

/// Lets dlflow-train compute some small steps, whose result is forgotten.
std::string first_steps(const fs::path& set, const fs::path& model) {
  const TemporaryFolder folder(fs::temp_directory_path() / "dlflow-check");
  const fs::path with = folder.path() / "with.json";
  const Json settings = {{"model", fs::absolute(model).string()},
                         {"data", fs::absolute(set).string()},
                         {"epochs", 1},
                         {"batch", 16},
                         {"lr", 1e-6}};
  write_output(with, settings.dump());
  const Command command = step_program(
      "dlflow-train", folder.path(),
      {"--profile-steps", "1", "--measurement", folder.path() / "measurement.json", with});
  const Output output = run(command, {.collect_errors = true});
  if (output.status == ExitStatus{}) return "steps of 16 samples: forward and backward";
  const std::string_view errors = trim(output.errors);
  constexpr std::string_view kBegin = "error: ";
  throw Error(Errc::InvalidInput,
              std::string(errors.substr(errors.starts_with(kBegin) ? kBegin.size() : 0)));
}

void check(Session& session, const fs::path& set, const fs::path& file) {
  const Model model = parse_model(read_file(file), file.string());
  Json list = Json::array();
  const FindingsPrinter printer(session, list);
  std::set<std::string> mistakes;  // splits may share one
  const auto add = [&](const auto& look) {
    try {
      printer.add(Finding::Kind::Works, escaped_lines(look()));
    } catch (const Error& error) {
      const std::string mistake = escaped_lines(error.what());
      if (mistakes.insert(mistake).second) printer.add(Finding::Kind::Fails, mistake);
    }
  };
  for (const SplitFiles& split : splits_at(set)) {
    add([&] { return checked(split, model, set); });
  }
  if (session.status == kDone) add([&] { return first_steps(set, file); });
  if (session.json) print_json({{"findings", list}});
}

double deviation_of(const TargetRange& target, double num_samples) {
  const double mean = target.sum / num_samples;
  return std::sqrt(std::max(0.0, target.squares / num_samples - mean * mean));
}

Json shards_json(const Overview& split) {
  Json shards = Json::array();
  for (const Shard& shard : split.shards) {
    shards.push_back(
        {{"file", shard.file}, {"samples", shard.num_samples}, {"sha256", shard.sha256}});
  }
  return shards;
}

Json classes_json(const Overview& split) {
  Json classes = Json::array();
  for (size_t label = 0; label < split.histogram.size(); ++label) {
    const std::string& name = split.names[label];
    classes.push_back({{"label", label}, {"name", name.empty() ? Json() : Json(name)}});
    if (!split.dataset.has_masks) classes.back()["samples"] = split.histogram[label];
  }
  return classes;
}

Json text_json(const Overview& split) {
  return {{"file", split.file.string()},
          {"samples", split.dataset.size()},
          {"length", split.dataset.shape.width},
          {"vocabulary", split.text->vocabulary},
          {"tokens", num_tokens(split.dataset)},
          {"unequal", split.dataset.has_texts()},
          {"classes", split.dataset.has_text_classes() ? classes_json(split) : Json::array()},
          {"tokenizer", split.dataset.tokenizer},
          {"text_bytes", split.text->bytes},
          {"bytes_per_token", bytes_per_token(split)},
          {"first_sample", escaped_lines(split.text->first)},
          {"bytes", split.bytes},
          {"shards", shards_json(split)}};
}

constexpr std::array kPixels = {"byte", "float", "jpeg", "token"};  // by PixelType

Json to_json(const Overview& split) {
  if (split.text) return text_json(split);
  Json targets = Json::array();
  const double num_samples = double(split.dataset.size());
  for (const TargetRange& target : split.targets) {
    targets.push_back({{"name", target.name.empty() ? Json() : Json(target.name)},
                       {"mean", target.sum / num_samples},
                       {"deviation", deviation_of(target, num_samples)},
                       {"min", target.smallest},
                       {"max", target.largest}});
  }
  const ImageShape& shape = split.dataset.shape;
  return {{"file", split.file.string()}, {"samples", split.dataset.size()},
          {"channels", shape.channels},  {"height", shape.height},
          {"width", shape.width},        {"pixels", kPixels[size_t(pixel_type_of(split.dataset))]},
          {"bytes", split.bytes},        {"classes", classes_json(split)},
          {"targets", targets},          {"masks", split.dataset.has_masks},
          {"shards", shards_json(split)}};
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

/// The named classes of masks.
void print_classes(const Overview& split) {
  std::printf("\n");
  for (size_t label = 0; label < split.names.size(); ++label) {
    const std::string& name = split.names[label];
    if (label == 0 && !name.empty()) std::printf("\nCLASS  NAME\n");
    if (!name.empty()) std::printf("%5zu  %s\n", label, escaped(name).c_str());
  }
}

void print_counted_classes(const Overview& split) {
  std::printf("\n\nCLASS  SAMPLES  NAME\n");
  for (size_t label = 0; label < split.histogram.size(); ++label) {
    const std::string& name = split.names[label];
    std::printf("%5zu  %7s%s%s\n", label, format_count(split.histogram[label]).c_str(),
                name.empty() ? "" : "  ", escaped(name).c_str());
  }
}

constexpr size_t kShownBytes = 400;  // of a sample

/// Prints the beginning of the first sample.
void print_text(const Overview& split) {
  const std::string& text = split.text->first;
  size_t shown = std::min(text.size(), kShownBytes);
  while (shown > 0 && shown < text.size() && (text[shown] & 0xc0) == 0x80) --shown;  // UTF-8
  const bool has_classes = split.dataset.has_text_classes();
  if (has_classes) print_counted_classes(split);
  std::printf("%s\nFIRST SAMPLE%s\n%s\n", has_classes ? "" : "\n",
              shown == text.size() ? "" : ", its beginning",
              escaped_lines(text.substr(0, shown)).c_str());
}

void print(const Overview& split) {
  std::printf("%s: %s, %s", split.file.c_str(), description_of(split).c_str(),
              format_size(split.bytes).c_str());
  if (!split.shards.empty()) {
    std::printf(" in %s", plural(split.shards.size(), "shard").c_str());
  }
  if (split.text) return print_text(split);
  if (!split.targets.empty()) return print_targets(split);
  if (split.dataset.has_masks) return print_classes(split);
  print_counted_classes(split);
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

}  // namespace

void add_data(CLI::App& app, Session& session) {
  CLI::App* data = add_command(app, "data", "Make data sets for training, and look at them.", R"(
  dlflow data pack pictures/train -o digits
  dlflow data show digits
  dlflow data check digits lenet.yaml)");
  data->require_subcommand(1);
  data->fallthrough();
  declare_data_pack(*data, session);

  struct Checked {
    std::string set, model;
  };
  const auto given = std::make_shared<Checked>();
  CLI::App* check_command = add_command(
      *data, "check",
      "Check that a network can learn from a data set: shapes, classes, numbers, and some steps.",
      R"(
  dlflow data check digits lenet.yaml)");
  check_command->add_option("set", given->set, "the folder of the data set")->required();
  check_command->add_option("model", given->model, "the model file")->required();
  add_json_option(*check_command, session);
  check_command->callback([&session, given] { check(session, given->set, given->model); });

  CLI::App* verify_command =
      add_command(*data, "verify", "Read data sets and report damaged files.", R"(
  dlflow data verify digits
  dlflow data verify digits/train-00003-of-00008.dlset)");
  const auto paths = std::make_shared<std::vector<std::string>>();
  verify_command->add_option("path", *paths, "folders, .dlset or .shards.json files")->required();
  add_json_option(*verify_command, session);
  verify_command->callback([&session, paths] { verify(session, *paths); });

  CLI::App* show_command = add_command(
      *data, "show",
      "Print what a data set holds, without reading its images; for text also the first sample.",
      R"(
  dlflow data show digits
  dlflow data show digits/train.dlset --json)");
  add_json_option(*show_command, session);
  const auto path = std::make_shared<std::string>();
  show_command->add_option("path", *path, "a folder, a .dlset or a .shards.json file")->required();
  show_command->callback([&session, path] { show(session, *path); });
}

}  // namespace dlflow
