#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "runtime/nn/network.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/nn/network_numbers.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;
using Json = nlohmann::json;

namespace {

/// PyTorch computed in double precision. dlflow has an error of 6e-8 per operation, and of a
/// hundred times that in normalisation over few values.
constexpr double kTolerance = 2e-5;

Model model_of(const Json& given) {
  std::string text = "name: m\nloss: " + given.at("loss").get<std::string>() + "\n";
  if (given.at("loss") == "next_token")
    text += "ignored_token: " + given.at("ignored").dump() + "\n";
  text +=
      "input: " + given.at("input").dump() + "\nlayers:\n" + given.at("layers").get<std::string>();
  return parse_model(text, "m.yaml");
}

void compare(const Json& given) {
  const Model model = model_of(given);
  const auto labels = given.at("labels").get<std::vector<uint32_t>>();
  const auto images = to_floats(given.at("images").get<std::vector<double>>());
  Network network(model, int64_t(labels.size()), Network::Mode::Training);
  const WeightLayout& layout = *network.layout();
  REQUIRE(layout.parameters().size() == given.at("tensors").size());
  HugeBuffer weights(layout.size()), gradients(layout.size());
  for (size_t i = 0; i < layout.parameters().size(); ++i) {
    const Json& tensor = given.at("tensors").at(layout.parameters()[i].name);
    layout.from_plain(to_floats(tensor.at("weight").get<std::vector<double>>()), weights.floats(),
                      i);
  }
  network.use_weights(weights.floats());
  const auto lengths = given.at("lengths").get<std::vector<float>>();
  const BatchResult result = network.forward(images, labels, lengths);
  CHECK(result.loss_sum == Approx(given.at("loss_sum").get<double>()).epsilon(kTolerance / 2));
  CHECK(distance(network.scores(), given.at("scores").get<std::vector<double>>()) < kTolerance);
  network.backward(gradients.floats(), 1);
  for (size_t i = 0; i < layout.parameters().size(); ++i) {
    const std::string& name = layout.parameters()[i].name;
    CAPTURE(name);
    const auto wanted = given.at("tensors").at(name).at("gradient").get<std::vector<double>>();
    CHECK(distance(layout.to_plain(gradients.floats(), i), wanted) < kTolerance);
  }
}

}  // namespace

TEST_CASE("layers and their gradients are those of PyTorch", "[network]") {
  const char* file = std::getenv("DLFLOW_PYTORCH_LAYERS");
  if (file == nullptr) {
    WARN("skipped here: PyTorch's results are made by the test 'nn: layers are those of ...'");
    return;
  }
  const Json cases = Json::parse(read_file(file));
  REQUIRE(cases.size() > 10);
  for (const Json& given : cases) {
    CAPTURE(given.at("name").get<std::string>());
    compare(given);
  }
}
