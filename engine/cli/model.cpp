#include <cstdio>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/output_file.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/cli/commands.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/import/table.h"
#include "runtime/onnx/read_onnx.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using namespace runtime;

struct ImportArguments {
  std::string file;
  std::string model;           ///< output file; empty: named after `file`, in this folder
  std::vector<int64_t> input;  ///< shape of one sample; empty: as in the file
};

/// Numbers as a YAML list.
std::string list_of(const std::vector<float>& numbers) {
  std::string list;
  for (const float number : numbers) {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", double(number));
    list += (list.empty() ? "[" : ", ") + std::string(text);
  }
  return list + "]";
}

/// The mean and the deviation by which the file scales its input, for `normalize`.
std::string normalization_note(const InputScale& input) {
  std::vector<float> mean, deviation;
  for (size_t i = 0; i < input.scale.size(); ++i) {
    mean.push_back(-input.shift[i] / input.scale[i]);
    deviation.push_back(1 / input.scale[i]);
  }
  return "The file normalises its input by mean " + list_of(mean) + " and std " +
         list_of(deviation) +
         ". Set these as `normalize` of the training; divide them by 255 if the file's input is "
         "pixels from 0 to 255.";
}

std::vector<TensorView> views_of(const ImportedNetwork& network) {
  std::vector<TensorView> views;
  for (const auto& [name, tensor] : network.weights) {
    views.push_back(tensor_view<float>(name, {tensor.shape.begin(), tensor.shape.end()},
                                       std::span<const float>(tensor.numbers)));
  }
  return views;
}

void require_absent(const fs::path& path) {
  if (!fs::exists(path)) return;
  throw Error(Errc::InvalidInput,
              path.string() + " already exists; remove it, or write to another file with -o");
}

void import_model(const ImportArguments& arguments, Session& session) {
  const fs::path file = arguments.file;
  refuse_unreadable(file);
  const fs::path model = arguments.model.empty() ? fs::path(file.stem().string() + ".yaml")
                                                 : fs::path(arguments.model);
  const fs::path weights = fs::path(model).replace_extension(".safetensors");
  std::optional<TensorShape> input;
  if (!arguments.input.empty()) input = arguments.input;
  ImportedNetwork network = import_onnx(read_onnx_file(file), model.stem(), input);
  require_absent(model);  // only now, since `file` itself is not a model file
  require_absent(weights);
  if (network.normalization) network.notes.push_back(normalization_note(*network.normalization));
  size_t parameters = 0;
  for (const auto& [name, tensor] : network.weights) parameters += tensor.numbers.size();

  write_output(model,
               "# Imported from " + escaped(file.filename().string()) + ".\n" + network.model.text);
  write_safetensors(weights, views_of(network));
  if (session.json) {
    return print_json({{"model", model.string()},
                       {"weights", weights.string()},
                       {"layers", network.model.layers.size()},
                       {"parameters", parameters},
                       {"notes", network.notes}});
  }
  std::printf("%s: %zu layers, %s to %s\n", escaped(model.string()).c_str(),
              network.model.layers.size(), to_string(network.model.input).c_str(),
              to_string(network.model.layers.back().shape).c_str());
  std::printf("%s: %zu tensors, %s numbers\n", escaped(weights.string()).c_str(),
              network.weights.size(), format_count(parameters).c_str());
  for (const std::string& note : network.notes) {
    std::printf("note: %s\n", escaped(note).c_str());
  }
  if (session.quiet) return;
  std::printf("Train from these weights with `model: %s` and `start_from: %s`.\n",
              escaped(model.string()).c_str(), escaped(weights.string()).c_str());
}

}  // namespace

void add_model(CLI::App& app, Session& session) {
  CLI::App* model = add_command(app, "model", "Networks for training.", R"(
  dlflow model import resnet18.onnx -o models/resnet18.yaml)");
  model->require_subcommand(1);
  model->fallthrough();
  CLI::App* command = add_command(
      *model, "import",
      "Make a model file and a file of weights from an ONNX file, to train from them.", R"(
  dlflow model import resnet18.onnx -o models/resnet18.yaml
  dlflow model import net.onnx --input 3,64,64)");
  const auto arguments = std::make_shared<ImportArguments>();
  add_value(*command, "file", "FILE.onnx", arguments->file, "a network as an ONNX file")
      ->required();
  add_value(*command, "-o,--output", "NAME.yaml", arguments->model,
            "the model file to write; NAME.safetensors beside it has the weights "
            "(default: FILE.yaml, here)");
  add_value(*command, "--input", "SIZES", arguments->input,
            "sizes of one sample, if the file leaves them open: C,H,W, F or T")
      ->delimiter(',');
  add_json_option(*command, session);
  command->callback([&session, arguments] { import_model(*arguments, session); });
}

}  // namespace dlflow
