#include "runtime/train/start_weights.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/float16.h"
#include "base/sha256.h"
#include "base/text.h"
#include "runtime/nn/layer_shapes.h"
#include "runtime/train/agreement.h"
#include "runtime/train/node_view.h"

namespace dlflow::runtime {
namespace {

[[noreturn]] void refuse(const StartWeights& start, const std::string& what) {
  throw Error(Errc::InvalidInput, "start_from: " + start.path.string() + " " + what);
}

/// A tensor that the model needs.
struct Wanted {
  std::string name;
  std::vector<uint64_t> shape;
  bool frozen, in_head;  ///< in_head: belongs to the last layer with weights
};

std::vector<Wanted> wanted_by(const Model& model) {
  std::vector<Wanted> all;
  for (const Layer& layer : model.layers) {
    const auto tensors = tensors_of(layer, model.shape_of(layer.inputs[0]));
    if (tensors.empty()) continue;
    for (Wanted& before : all) before.in_head = false;
    for (const LayerTensor& tensor : tensors) {
      all.push_back({layer.name + "." + tensor.name,
                     {tensor.shape.begin(), tensor.shape.end()},
                     layer.frozen,
                     true});
    }
  }
  return all;
}

const TensorView* find(const Safetensors& tensors, const std::string& name) {
  const auto found = std::ranges::find(tensors.tensors(), name, &TensorView::name);
  return found == tensors.tensors().end() ? nullptr : &*found;
}

std::string to_text(const std::vector<uint64_t>& shape) {
  std::vector<std::string> sizes;
  for (const uint64_t size : shape) sizes.push_back(std::to_string(size));
  return "(" + join(sizes, ",") + ")";
}

/// Returns "a, b, c and 12 more".
std::string some_of(std::vector<std::string> names) {
  constexpr size_t kMost = 8;
  if (names.size() <= kMost) return join(names, ", ");
  const size_t more = names.size() - kMost;
  names.resize(kMost);
  return join(names, ", ") + " and " + std::to_string(more) + " more";
}

std::vector<std::string> unused(const StartWeights& start) {
  std::vector<std::string> names;
  for (const TensorView& tensor : start.tensors.tensors()) {
    const bool counts_batches = tensor.name.ends_with(".num_batches_tracked");  // in PyTorch
    if (!counts_batches && !start.taken.contains(tensor.name)) names.push_back(tensor.name);
  }
  return names;
}

void decide(StartWeights& start, const Model& model, bool tells) {
  const std::vector<Wanted> all = wanted_by(model);
  const auto differs = [&](const Wanted& wanted) {
    const TensorView* const tensor = find(start.tensors, wanted.name);
    return tensor != nullptr && tensor->shape != wanted.shape;
  };
  const bool new_head = std::ranges::any_of(
      all, [&](const Wanted& wanted) { return wanted.in_head && differs(wanted); });
  std::vector<std::string> anew;
  for (const Wanted& wanted : all) {
    const TensorView* const tensor = find(start.tensors, wanted.name);
    if (tensor != nullptr && !(new_head && wanted.in_head)) {
      if (differs(wanted)) {
        refuse(start, "has '" + wanted.name + "' of shape " + to_text(tensor->shape) +
                          ", but the model has " + to_text(wanted.shape) +
                          "; only the last layer with weights may differ");
      }
      if (tensor->dtype != DType::F32 && tensor->dtype != DType::F16 &&
          tensor->dtype != DType::BF16) {
        refuse(start, "has '" + wanted.name + "' as " + std::string(name(tensor->dtype)) +
                          "; save it as F32, F16 or BF16");
      }
      start.taken.insert(wanted.name);
    } else if (wanted.frozen) {
      refuse(start, "has no matching '" + wanted.name +
                        "' for a layer that 'freeze' would leave at random numbers");
    } else {
      anew.push_back(wanted.name);
    }
  }
  const std::vector<std::string> left = unused(start);
  if (start.taken.empty()) {
    refuse(start, "shares no tensor with model '" + model.name + "': " + some_of(left));
  }
  if (!tells) return;
  std::fprintf(stderr, "start_from: %zu of %zu tensors from %s\n", start.taken.size(), all.size(),
               start.path.c_str());
  if (!anew.empty())
    std::fprintf(stderr, "start_from: new tensors: %s\n", escaped(some_of(anew)).c_str());
  if (!left.empty())
    std::fprintf(stderr, "start_from: unused tensors: %s\n", escaped(some_of(left)).c_str());
}

template <typename Widen>
std::vector<float> widened(const TensorView& tensor, Widen widen) {
  std::vector<float> values(tensor.bytes.size() / sizeof(uint16_t));
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, &tensor.bytes[i * sizeof bits], sizeof bits);
    values[i] = widen(bits);
  }
  return values;
}

std::vector<float> floats_of(const TensorView& tensor) {
  if (tensor.dtype == DType::F16) {
    return widened(tensor, [](uint16_t bits) { return widen(Float16{bits}); });
  }
  if (tensor.dtype == DType::BF16) {
    return widened(tensor,
                   [](uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); });
  }
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  copy_elements<float>(tensor, values);
  return values;
}

}  // namespace

StartWeights open_start_weights(Communicator& comm, const std::filesystem::path& path,
                                const Model& model) {
  StartWeights start{path, {}, {}, {}};
  if (std::filesystem::is_directory(path)) {
    start.identity = checkpoint_files(path).sha256;
    start.tensors = load_shared_checkpoint(comm, path).model;
  } else {
    const Activity activity(comm, "reads the weights to start from");
    start.identity = sha256_file(path);
    require_agreement(comm, {{"the weights to start from", start.identity}});
    start.tensors = Safetensors::open(path);
  }
  decide(start, model, comm.rank() == 0);
  return start;
}

void take_start_weights(const StartWeights& start, const WeightLayout& layout,
                        std::span<float> weights) {
  for (size_t i = 0; i < layout.parameters().size(); ++i) {
    const std::string& name = layout.parameters()[i].name;
    if (!start.taken.contains(name)) continue;
    layout.from_plain(floats_of(start.tensors.at(name)), weights, i);
  }
}

}  // namespace dlflow::runtime
