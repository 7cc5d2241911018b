#include "runtime/generate/token_network.h"

#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "runtime/generate/generation.h"
#include "runtime/nn/reference/reference_network.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

constexpr size_t kLength = 9, kVocabulary = 13;

/// With learned positions, biases, layer norm and GELU, as GPT-2.
constexpr const char* kGpt = R"(
name: gpt
input: [9]
layers:
  - embedding: {name: wte, vocabulary: 13, features: 24}
  - positions: {name: wpe}
  - dropout: {name: start, rate: 0.1}
  - layer_norm: {name: n1}
  - linear: {name: qkv, features: 72}
  - attention: {heads: 3}
  - linear: {name: out, features: 24}
  - add: {name: middle, from: start}
  - layer_norm: {name: n2, bias: false}
  - linear: {name: up, features: 40}
  - gelu
  - linear: {name: down, features: 24}
  - add: {from: middle}
  - linear: {name: head, features: 13, tied: wte, bias: false}
loss: next_token
)";

/// With rotary positions, RMS norm, grouped queries and SiLU, as LLaMA; and the other functions.
constexpr const char* kLlama = R"(
name: llama
input: [9]
layers:
  - embedding: {name: wte, vocabulary: 13, features: 16}
  - rms_norm: {name: n1}
  - linear: {name: qkv, features: 32, bias: false}
  - attention: {heads: 4, kv_heads: 2, rotary: true}
  - linear: {name: up, features: 20}
  - silu
  - linear: {name: a, features: 20}
  - tanh
  - linear: {name: b, features: 20}
  - sigmoid
  - linear: {name: c, features: 20}
  - leaky_relu: {slope: 0.2}
  - linear: {name: d, features: 20}
  - relu6
  - linear: {name: e, features: 20}
  - relu
  - linear: {name: f, features: 20}
  - softmax
  - linear: {name: head, features: 13}
loss: next_token
)";

/// Random numbers that depend on the tensor's name; around 1 for the weights of normalisations.
std::vector<float> numbers(const std::string& name, size_t size) {
  RandomStream random(std::hash<std::string>()(name), RandomUse::Initialization, 0);
  const float centre = name.starts_with("n") && name.ends_with("weight") ? 1 : 0;
  std::vector<float> values(size);
  for (float& value : values) value = centre + (random.uniform() - 0.5f);
  return values;
}

/// The same tensors, for the reference.
reference::NamedTensors tensors_of(const Model& model) {
  reference::NamedTensors tensors;
  TokenNetwork(model, [&](const std::string& name, size_t size) {
    const auto layer =
        std::ranges::find(model.layers, name.substr(0, name.find('.')), &Layer::name);
    const int64_t features = layer->shape.back(), count = int64_t(size);
    std::vector<int64_t> shape = {count};
    if (name.ends_with("weight") && layer->kind == LayerKind::Linear) {
      shape = {features, count / features};
    } else if (layer->kind == LayerKind::Embedding || layer->kind == LayerKind::Positions) {
      shape = {count / features, features};
    }
    const std::vector<float> values = numbers(name, size);
    reference::Tensor tensor(shape);
    tensor.values.assign(values.begin(), values.end());
    tensors[name] = tensor;
    return values;
  });
  return tensors;
}

GenerationOptions greedy(size_t max_tokens) {
  GenerationOptions options;
  options.max_tokens = max_tokens;
  options.sampling.temperature = 0;
  options.end_of_text = kVocabulary - 1;
  options.vocabulary = kVocabulary;
  return options;
}

}  // namespace

TEST_CASE("token by token, a network gives the scores of the whole sequence", "[token_network]") {
  const Model model = parse_model(GENERATE(kGpt, kLlama), "m.yaml");
  reference::Tensor tokens({1, int64_t(kLength)});
  tokens.values = {3, 0, 12, 7, 7, 1, 5, 11, 2};
  const reference::Tensor expected = reference::infer(model, tensors_of(model), tokens);
  TokenNetwork network(model, numbers);
  CHECK(network.length() == kLength);
  CHECK(network.vocabulary() == kVocabulary);
  for (int pass = 0; pass < 2; ++pass) {  // the second after others were forgotten
    network.restart();
    for (size_t t = 0; t < kLength; ++t) {
      const auto scores = network.read(uint32_t(tokens[t]));
      for (size_t i = 0; i < kVocabulary; ++i) {
        CHECK(scores[i] == Approx(expected[t * kVocabulary + i]).margin(2e-5));
      }
    }
  }
}

TEST_CASE("a text longer than the network goes on with the last half of it", "[token_network]") {
  const Model model = parse_model(kGpt, "m.yaml");
  TokenNetwork network(model, numbers);
  const std::vector<uint32_t> prompt = {3, 1, 4};
  const GeneratedText text = generate(network, prompt, greedy(20), 0);
  std::vector<uint32_t> all = prompt;
  size_t begin = 0;  // of what the network sees
  for (const uint32_t token : text.tokens) {
    if (all.size() - begin > kLength) begin = all.size() - kLength / 2;
    network.restart();
    std::span<const float> scores;
    for (size_t i = begin; i < all.size(); ++i) scores = network.read(all[i]);
    CHECK(choose_token(scores, {.temperature = 0}, 0) == token);
    all.push_back(token);
  }
  CHECK((text.ended || text.tokens.size() == 20));
}

TEST_CASE("a sample depends on seed and number alone", "[token_network]") {
  const Model model = parse_model(kGpt, "m.yaml");
  TokenNetwork network(model, numbers), other(model, numbers);
  GenerationOptions options = greedy(30);
  options.sampling = {};
  options.end_of_text = 999;  // none
  const auto tokens = [&](TokenNetwork& by, uint32_t sample) {
    return generate(by, std::vector<uint32_t>{1}, options, sample).tokens;
  };
  const auto first = tokens(network, 0);
  CHECK(first.size() == 30);
  CHECK(tokens(network, 1) != first);
  CHECK(tokens(other, 1) == tokens(network, 1));
  options.seed = 7;
  CHECK(tokens(network, 0) != first);
  options.seed = 0;
  CHECK(tokens(network, 0) == first);
}

TEST_CASE("what is not made for text is refused by its layer", "[token_network]") {
  const auto refused = [](const std::string& layers, const std::string& loss) {
    return test::error_of([&] {
      TokenNetwork(
          parse_model("name: m\ninput: [4]\nlayers:\n" + layers + "loss: " + loss + "\n", "m.yaml"),
          numbers);
    });
  };
  const std::string embedding = "  - embedding: {name: e, vocabulary: 5, features: 6}\n";
  CHECK(refused(embedding + "  - attention: {name: a, heads: 1, causal: false}\n" +
                    "  - linear: {name: h, features: 5}\n",
                "next_token") ==
        "layer 'a' (attention) looks at the tokens behind, with 'causal: false': text is generated "
        "token by token");
  CHECK_THAT(refused("  - linear: {name: h, features: 5}\n", "softmax_cross_entropy"),
             Catch::Contains("language models, with 'loss: next_token'"));
  TokenNetwork network(parse_model(kGpt, "m.yaml"), numbers);
  CHECK_THROWS_WITH(generate(network, std::vector<uint32_t>{13}, greedy(1), 0),
                    Catch::Contains("the prompt has token 13, the network knows 13"));
  TokenNetwork broken(parse_model(kGpt, "m.yaml"), [](const std::string&, size_t size) {
    return std::vector<float>(size, std::nanf(""));
  });
  CHECK_THROWS_WITH(generate(broken, std::vector<uint32_t>{1}, greedy(1), 0),
                    Catch::Contains("scores that are NaN or infinite"));
}
