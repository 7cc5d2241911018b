#include "engine/init/training.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/shared_bytes.h"
#include "base/text.h"
#include "engine/init/init.h"
#include "runtime/checkpoint/safetensors_header.h"
#include "runtime/data/split_files.h"
#include "runtime/import/sources.h"
#include "runtime/import/table_reader.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using runtime::Split;
using Words = std::vector<std::string>;

constexpr const char* kConvolutionBlock = R"(blocks:
  stage:
    - conv2d: {name: conv, channels: $channels, kernel: 3, padding: 1, bias: false}
    - batch_norm: {name: bn}
    - relu
    - max_pool: {kernel: 2}
layers:)";
constexpr const char* kLinearLayers =
    "  - linear: {features: 64}\n  - relu\n  - linear: {features: 64}\n  - relu";

/// Share of samples held back as a test, if there are enough.
constexpr double kTestShare = 0.2;
constexpr size_t kSamplesForTest = 50;

/// Makes workflow, model and, for numbers, the weights of the scale. \param packing  the step that
/// makes the data set; may be empty. \param place  path of the data set, as YAML
std::vector<InitFile> training_files(const InitRequest& request, const TrainingData& data,
                                     const std::string& packing, const std::string& place) {
  constexpr size_t kSteps = 2000;  // few samples get more epochs and smaller batches
  const size_t batch = data.samples < 5000 ? std::clamp<size_t>(data.samples / 2, 1, 32) : 128;
  const size_t epochs = kSteps * batch / std::max<size_t>(data.samples, 1);
  const std::string stem = request.workflow.stem().string(), model = stem + "-model.yaml";
  const std::string scale = data.targets.empty() ? "" : stem + "-scale.safetensors";
  const std::string text = yaml_lines(
      {{kHead, request.name},
       {"params: {epochs: @, " + std::string(data.is_table() ? "lr: 0.01}" : "lr: 0.003}"),
        std::to_string(std::clamp<size_t>(epochs, 5, 40))},
       {"steps:\n@", packing + "  train:\n    uses: train"},
       {"    resources: {ranks: 1, walltime: @}\n    with:", request.walltime_or_hour()},
       {"      model: @", yaml_quote(model)},
       {"      data: @\n      epochs: ${{ params.epochs }}", place},
       {"      batch: @\n      lr: ${{ params.lr }}\n      optimizer: {kind: adam}",
        std::to_string(batch)},
       {"      keep_best: loss", "", data.is_table()},
       {"      start_from: @  # mean and deviation of the targets\n      freeze: [scale]",
        yaml_quote(scale), !scale.empty()},
       {"    checkpoint: {every: 1 epoch, keep: 2}"},
       {R"(  evaluate:
    uses: evaluate
    resources: {walltime: 10m}
    with: {checkpoint: "${{ steps.train.outputs.model }}", data: @})",
        place, data.has_test}});
  const fs::path folder = request.workflow.parent_path();
  std::vector<InitFile> files = {{request.workflow, text},
                                 {folder / model, model_text(request.name, data)}};
  if (!scale.empty()) files.push_back({folder / scale, scale_file(data.targets)});
  return files;
}

/// Like training_files(), with a first step that packs `source` and holds samples back as a test.
/// \param comments  above that step. \param options  ", --target, price"
std::vector<InitFile> packed_training(const InitRequest& request, const TrainingData& data,
                                      const std::string& comments, const std::string& source,
                                      const std::string& options) {
  const std::string share = data.has_test ? fmt::format(", --test-share, \"{}\"", kTestShare) : "";
  const std::string packing = yaml_lines({{"  data:\n    run: [dlflow, data, pack, @]",
                                           yaml_quote(source) + ", -o, data" + options + share},
                                          {"@\n    outputs: {data: data}", yaml_inputs({source})}});
  return training_files(request, data, comments + packing, R"("${{ steps.data.outputs.data }}")");
}

/// The column to learn: from --target, or from the user's answer.
std::string target_of(const InitRequest& request, const Words& columns) {
  const std::string source = request.source.string();
  const std::string has = source + " has the columns " + join(columns, ", ");
  if (!request.target.empty()) return request.target;
  const std::string answer =
      request.ask ? request.ask(has + ". Which column should the network learn?") : "";
  if (!answer.empty()) return answer;
  throw Error(Errc::InvalidInput, has + "; name the one to learn: dlflow init " +
                                      shell_quote(source) + " --target " +
                                      shell_quote(columns.empty() ? "" : columns.back()));
}

/// A few whole numbers are classes, in most tables.
bool are_classes(const runtime::Dataset& rows) {
  constexpr size_t kFew = 10;
  std::set<float> different;
  for (size_t i = 0; i < rows.size() && different.size() <= kFew; ++i) {
    if (std::floor(rows.targets[i][0]) != rows.targets[i][0]) return false;
    different.insert(rows.targets[i][0]);
  }
  return different.size() <= kFew;
}

/// A column of a table, from all its cells.
struct Column {
  std::string name;
  size_t num_rows = 0;
  bool lacks_values = false;
  std::optional<bool> begins_with_number = {};  // in its first cell with a value
  std::set<std::string> texts = {};             // the first of them

  bool is_number() const { return begins_with_number.value_or(false); }

  /// Whether the texts occur so often that they are worth a number each.
  bool is_category() const {
    return !texts.empty() && texts.size() <= kMostTexts && 2 * texts.size() <= num_rows;
  }

  void add(const std::string& text) {
    const bool is_missing = runtime::is_missing(text, runtime::Feature::Kind::Number);
    ++num_rows;
    lacks_values = lacks_values || is_missing;
    if (is_missing) return;
    if (!begins_with_number) begins_with_number = number_from<double>(text).has_value();
    if (!is_number() && texts.size() <= kMostTexts) texts.insert(text);
  }

  static constexpr size_t kMostTexts = 20;
};

std::vector<Column> columns_of(runtime::TableReader reader) {
  std::vector<runtime::TableField> fields;
  std::vector<Column> columns;
  reader.next(fields);
  for (const runtime::TableField& field : fields) columns.push_back({field.text});
  while (reader.next(fields)) {
    fields.resize(columns.size());
    for (size_t i = 0; i < columns.size(); ++i) columns[i].add(fields[i].text);
  }
  return columns;
}

/// The rows of a table that `shares` leaves for training.
runtime::Dataset training_rows(const runtime::Table& table, const runtime::SplitShares& shares) {
  if (!shares.given()) return table.dataset;
  const auto parts = runtime::split_by_name(table.rows, shares);
  const std::vector<size_t>& training = parts.at(Split::Train);
  const auto list = std::make_shared<std::vector<uint32_t>>(training.begin(), training.end());
  return table.dataset.select(runtime::Subset::only({*list, list}));
}

constexpr uint32_t kSide = 64;  // of resized pictures, in pixels

/// Whether all pictures have the same small size.
bool are_small_and_equal(const runtime::SampleSource& pictures) {
  if (std::max(pictures.shape.height, pictures.shape.width) > kSide) return false;
  try {
    for (size_t i = 0; i < pictures.size(); ++i) pictures.image(i);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

TrainingData training_data_of(const runtime::Dataset& rows) {
  TrainingData data{rows.shape, rows.size(), rows.num_classes};
  const double count = double(rows.size());
  for (size_t target = 0; target < rows.num_targets; ++target) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < rows.size(); ++i) sum += rows.targets[i][target];
    const double mean = sum / count;
    for (size_t i = 0; i < rows.size(); ++i) squares += std::pow(rows.targets[i][target] - mean, 2);
    const float deviation = float(std::sqrt(squares / count));
    data.targets.push_back({float(mean), deviation > 0 ? deviation : 1});
  }
  return data;
}

std::string model_text(const std::string& name, const TrainingData& data) {
  const auto& [channels, height, width] = data.shape;
  const bool is_table = data.is_table(), has_classes = data.targets.empty();
  const std::string size = ", " + std::to_string(height) + ", " + std::to_string(width);
  std::string stages;
  uint32_t side = std::min(height, width);  // each stage halves it, to 2 pixels at least
  for (int stage = 1; stage <= 3 && side >= 4; ++stage, side /= 2) {
    stages += "  - stage: {name: stage" + std::to_string(stage) +
              ", channels: " + std::to_string(8 << stage) + "}\n";
  }
  return yaml_lines(
      {{"# Written by `dlflow init`. docs/user/model-format.md has every layer.\nname: @", name},
       {"input: [@]", std::to_string(channels) + (is_table ? "" : size)},
       {stages.empty() ? "layers:" : kConvolutionBlock},
       {"@  - global_avg_pool", stages},
       {"  - flatten", "", stages.empty() && !is_table},
       {kLinearLayers, "", stages.empty()},
       {"  - linear: {features: @}",
        std::to_string(has_classes ? data.classes : data.targets.size())},
       {"  - batch_norm: {name: scale}  # frozen: times the deviation, plus the mean", "",
        !has_classes},
       {"loss: mse  # or l1, huber; bce, without the layer above, for targets of 0 and 1", "",
        !has_classes}});
}

std::string scale_file(const std::vector<TargetScale>& targets) {
  std::vector<float> means, deviations;
  for (const TargetScale& target : targets) {
    means.push_back(target.mean);
    deviations.push_back(target.deviation);
  }
  const size_t size = targets.size() * sizeof(float);
  const std::vector<float> zeros(targets.size(), 0), ones(targets.size(), 1);
  runtime::SafetensorsHeader header;
  std::string values;
  for (const auto& [name, numbers] : {std::pair("scale.bias", &std::as_const(means)),
                                      {"scale.running_mean", &zeros},
                                      {"scale.running_var", &ones},
                                      {"scale.weight", &std::as_const(deviations)}}) {
    header.entries.push_back(
        {name, runtime::DType::F32, {targets.size()}, values.size(), values.size() + size});
    values.append(reinterpret_cast<const char*>(numbers->data()), size);
  }
  const std::string text = runtime::format_header(header);
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + values;
}

std::vector<InitFile> init_table(const InitRequest& request) {
  const std::string name = request.source.string();
  const char separator = runtime::separator_of(request.source);
  const SharedBytes content = map_file(request.source);
  const std::vector<Column> all = columns_of({content.view, name, separator});
  Words names, ignored;
  for (const Column& column : all) names.push_back(column.name);
  const std::string target = target_of(request, names);
  runtime::TableColumns columns;
  bool has_classes = false;
  for (const Column& column : all) {
    const bool is_target = column.name == target;
    if (!is_target && !column.is_number() && !column.is_category()) {
      ignored.push_back(column.name);
      continue;
    }
    if (column.lacks_values) {
      const bool drops = is_target || columns.missing == runtime::Missing::Drop;
      columns.missing = drops ? runtime::Missing::Drop : runtime::Missing::Mean;
    }
    if (is_target) has_classes = !column.is_number();
    if (!is_target) columns.features.push_back(column.name);
    if (!is_target && !column.is_number()) columns.categories.push_back(column.name);
  }
  const bool has_test = !all.empty() && all[0].num_rows >= kSamplesForTest;
  if (has_test) columns.shares.test = kTestShare;
  const auto read = [&] {
    columns.label = has_classes ? target : "";
    columns.targets = has_classes ? Words() : Words{target};
    return runtime::parse_table(content.view, name, columns, separator);
  };
  runtime::Table table = read();
  if (!has_classes && are_classes(table.dataset)) {
    has_classes = true;
    table = read();
  }
  std::string options = (has_classes ? ", --class, " : ", --target, ") + yaml_quote(target);
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) options += std::string(", ") + option + ", " + yaml_quote(value);
  };
  add("--features", ignored.empty() ? "" : join(columns.features, ","));
  add("--categories", join(columns.categories, ","));
  add("--missing", columns.missing == runtime::Missing::Mean   ? "mean"
                   : columns.missing == runtime::Missing::Drop ? "drop"
                                                               : "");
  const std::string comments = yaml_lines(
      {{"  # Learns the @ from the other columns, each scaled to mean 0 and deviation 1",
        (has_classes ? "class " : "number ") + target},
       {"  # Left out, since they hold neither numbers nor a few texts: @", join(ignored, ", ")}});
  TrainingData data = training_data_of(training_rows(table, columns.shares));
  data.has_test = has_test;
  std::vector<InitFile> files = packed_training(
      request, data, comments, named_by_workflow(request.source, request.workflow), options);
  files.front().note =
      "Features: " + join(columns.features, ", ") + "; " +
      (has_classes ? "classes from " : "numbers from ") + target +
      (columns.missing == runtime::Missing::Mean   ? "; empty cells get the mean"
       : columns.missing == runtime::Missing::Drop ? "; rows with empty cells are left out"
                                                   : "") +
      ".\n";
  return files;
}

std::vector<InitFile> init_pictures(const InitRequest& request) {
  runtime::SampleSource pictures = runtime::open_source(request.source, {}, Split::Train).source;
  std::string options;
  if (!are_small_and_equal(pictures)) {
    runtime::ImportOptions resized;
    resized.reshaping.shorter_side = kSide;
    resized.reshaping.crop = runtime::PictureSize{kSide, kSide};
    const std::string side = "\"" + std::to_string(kSide) + "\"";
    options = ", --resize, " + side + ", --crop, " + side;
    pictures = runtime::open_source(request.source, {}, Split::Train, resized).source;
  }
  TrainingData data{pictures.shape, pictures.size(), pictures.num_classes};
  data.has_test = data.samples >= kSamplesForTest;
  // An absolute path: the pictures are read in place, since a run would copy a relative one.
  return packed_training(request, data, "",
                         fs::absolute(request.source).lexically_normal().string(), options);
}

std::vector<InitFile> init_data_set(const InitRequest& request) {
  const runtime::Dataset rows = runtime::read_split(
      *runtime::find_split(request.source, Split::Train), runtime::Proof::Structure);
  if (!rows.tokenizer.empty() || rows.has_masks) {
    throw Error(Errc::InvalidInput,
                request.source.string() +
                    (rows.has_masks ? " holds pictures with a class per pixel; begin with a copy "
                                      "of workflows/segmentation.yaml"
                                    : " holds tokens of text; begin with a copy of "
                                      "workflows/language-model.yaml"));
  }
  TrainingData data = training_data_of(rows);
  data.has_test = runtime::find_split(request.source, Split::Test).has_value();
  return training_files(request, data, "",
                        yaml_quote(named_by_workflow(request.source, request.workflow)));
}

}  // namespace dlflow
