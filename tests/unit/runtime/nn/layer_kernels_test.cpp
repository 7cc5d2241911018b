// Tests each kind of layer in bf16, and oneDNN's implementations for the layers of dlflow's models.
#include <cmath>
#include <dnnl.hpp>

#include "base/file.h"
#include "runtime/nn/network.h"
#include "runtime/nn/operation.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/nn/network_numbers.h"
#include "tests/unit/runtime/nn/random_tensors.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;

TEST_CASE("each kind of layer in bf16 is close to fp32", "[network]") {
  if (dnnl::get_effective_cpu_isa() < dnnl::cpu_isa::avx512_core_bf16) {
    WARN("skipped here: this processor has no bf16");
    return;
  }
  const auto [input, layers] = GENERATE(table<std::string, std::string>({
      {"[20, 8, 8]",
       "- conv2d: {name: a, channels: 20, kernel: 3, padding: 1}\n- batch_norm\n- relu\n"
       "- conv2d: {channels: 20, kernel: 3, padding: 1}\n- batch_norm\n- add: {from: a}\n- relu\n"
       "- max_pool: {kernel: 2}\n- flatten\n- linear: {features: 3}\n"},
      {"[3, 8, 8]", "- max_pool: {kernel: 2}\n- relu\n- flatten\n- linear: {features: 3}\n"},
      {"[20]", "- flatten\n- linear: {features: 20}\n- relu\n- linear: {features: 3}\n"},
      {"[20]",
       "- linear: {name: a, features: 20, bias: false}\n- flatten: {from: input}\n"
       "- add: {from: a}\n- batch_norm\n- linear: {features: 3}\n- relu\n"},
      {"[16, 4, 4]", "- conv2d: {channels: 3, kernel: 1}\n- relu\n- global_avg_pool\n"},
      {"[16, 6, 6]",
       "- conv2d: {channels: 5, kernel: 3}\n- sigmoid\n- gelu\n"
       "- flatten\n- silu\n- linear: {features: 5}\n- tanh\n"},
      {"[16, 6, 6]", "- conv2d: {channels: 5, kernel: 3}\n- flatten\n- batch_norm\n"},
      {"[16, 6, 6]",
       "- conv2d: {name: a, channels: 32, kernel: 3, padding: 1, bias: false}\n- relu6\n"
       "- conv2d: {channels: 32, kernel: 3, padding: 1, groups: 32}\n- leaky_relu\n"
       "- group_norm: {groups: 4}\n- concat: {from: [a, group_norm1]}\n"
       "- conv2d: {channels: 12, kernel: 3, padding: 2, dilation: 2, groups: 4}\n"
       "- stochastic_depth: {rate: 0.3}\n- adaptive_avg_pool: {size: 4}\n"
       "- conv_transpose2d: {channels: 20, kernel: 2, stride: 2}\n- upsample: {scale: 2}\n"
       "- flatten\n- linear: {features: 3}\n"},
      {"[20]",
       "- linear: {features: 24}\n- layer_norm\n- dropout: {rate: 0.2}\n- softmax\n- rms_norm\n"
       "- linear: {features: 3}\n"},
  }));
  const auto mode = GENERATE(Network::Mode::Training, Network::Mode::JointTraining);
  CAPTURE(input, layers);
  constexpr int64_t kBatch = 9;
  const test::Problem p = test::make_problem(input, layers, kBatch);
  const std::vector<float> images = to_floats(p.images.values);

  Network exact(p.model, kBatch, mode);
  Network rough(p.model, kBatch, mode, nullptr, Compute::BFloat16);
  Network infers(p.model, kBatch, Network::Mode::Inference, rough.layout());
  const HugeBuffer weights = load(*exact.layout(), p.weights);
  const HugeBuffer rough_weights = load(*rough.layout(), p.weights);
  HugeBuffer gradients(exact.layout()->size()), rough_gradients(rough.layout()->size());
  exact.use_weights(weights.floats());
  rough.use_weights(rough_weights.floats());
  infers.use_weights(rough_weights.floats());
  const double loss = exact.forward(images, p.labels).loss_sum;
  CHECK(rough.forward(images, p.labels).loss_sum == Approx(loss).epsilon(kBFloat16Tolerance));
  exact.backward(gradients.floats(), 1);
  rough.backward(rough_gradients.floats(), 1);
  const size_t last = exact.layout()->num_trainable() - 1;
  const auto in_double = [&](const Network& network, HugeBuffer& buffer) {
    const std::vector<float> plain = network.layout()->to_plain(buffer.floats(), last);
    return std::vector<double>(plain.begin(), plain.end());
  };
  const std::vector<float> found = rough.layout()->to_plain(rough_gradients.floats(), last);
  CHECK(distance(found, in_double(exact, gradients)) < 2 * kBFloat16Tolerance);
  CHECK(std::isfinite(infers.forward(images, p.labels).loss_sum));
}

TEST_CASE("the models that come with dlflow use no reference code of oneDNN", "[network]") {
  const std::string name =
      GENERATE("mlp", "lenet", "resnet20", "unet", "unet-masks", "gpt-small", "gpt-bytes",
               "text-classes", "regression", "resnet18", "resnet34", "resnet50", "mobilenet-v2",
               "densenet121", "googlenet", "vgg11");
  const std::string file = std::string(DLFLOW_MODELS "/") + name + ".yaml";
  const Model model = parse_model(read_file(file), file);
  const bool bf16 = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core_bf16;
  const bool is_large = model.input.size() == 3 && model.input[0] == 3;
  const std::vector<int64_t> small = {1, 16, 64}, large = {2};
  for (const int64_t batch : is_large ? large : small) {
    for (const Compute compute : {Compute::Float32, Compute::BFloat16}) {
      if (compute == Compute::BFloat16 && !bf16) continue;
      CAPTURE(name, batch, compute == Compute::BFloat16);
      CHECK_NOTHROW(Network(model, batch, Network::Mode::Training, nullptr, compute));
    }
    CHECK_NOTHROW(Network(model, batch, Network::Mode::Inference));
  }
}

TEST_CASE("a layer for which oneDNN has only reference code is refused", "[network]") {
  Layer layer;
  layer.name = "c1";
  layer.line = 7;
  CHECK_NOTHROW(require_optimised("brgconv:avx512_core", layer));
  CHECK_THROWS_WITH(require_optimised("ref:any", layer),
                    Catch::StartsWith("layer 'c1' (line 7): oneDNN has only its reference code"));
}
