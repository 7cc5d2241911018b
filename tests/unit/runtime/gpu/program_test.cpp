#include "runtime/gpu/program.h"

#include <algorithm>

#include "base/file.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

struct Translated {
  Model model;
  std::shared_ptr<const WeightLayout> layout;
  Program program;
};

Translated translate(const std::string& name) {
  const std::string file = std::string(DLFLOW_MODELS) + "/" + name + ".yaml";
  Translated t;
  t.model = parse_model(read_file(file), file);
  t.layout = plain_layout(t.model);
  t.program = make_program(t.model, *t.layout);
  return t;
}

std::vector<int> kinds(const Program& program) {
  std::vector<int> all;
  for (const auto& operation : program.operations) all.push_back(operation.kind);
  return all;
}

const Parameter& parameter_at(const Translated& t, int64_t place) {
  return *std::ranges::find(t.layout->parameters(), size_t(place), &Parameter::offset);
}

/// The program of a model; its layout no longer exists.
Program program_of(const std::string& text) {
  const Model model = parse_model(text, "m.yaml");
  return make_program(model, *plain_layout(model));
}

}  // namespace

TEST_CASE("a plain layout holds every parameter in the order of its shape") {
  const Translated t = translate("lenet");
  std::vector<float> buffer(t.layout->size());
  for (size_t i = 0; i < t.layout->parameters().size(); ++i) {
    const Parameter& parameter = t.layout->parameters()[i];
    size_t count = 1;
    for (const int64_t n : parameter.shape) count *= size_t(n);
    std::vector<float> values(count);
    for (size_t k = 0; k < count; ++k) values[k] = float(k + 1);
    t.layout->from_plain(values, buffer, i);
    CHECK(std::equal(values.begin(), values.end(), buffer.begin() + ptrdiff_t(parameter.offset)));
    CHECK(parameter.offset % 16 == 0);
    CHECK(parameter.size == (count + 15) / 16 * 16);
  }
}

TEST_CASE("mlp becomes three products, the first two with ReLU") {
  const Translated t = translate("mlp");
  CHECK(kinds(t.program) ==
        std::vector<int>{DLFLOW_GPU_LINEAR, DLFLOW_GPU_LINEAR, DLFLOW_GPU_LINEAR});
  const auto& operations = t.program.operations;
  CHECK(operations[0].relu == 1);
  CHECK(operations[1].relu == 1);
  CHECK(operations[2].relu == 0);
  CHECK(operations[0].input == 0);  // flatten is the images themselves
  CHECK(operations[0].input_gradient == DLFLOW_GPU_NO_GRADIENT);
  CHECK(operations[1].input_gradient == DLFLOW_GPU_WRITE);
  CHECK(parameter_at(t, operations[1].weight).name == "fc2.weight");
  CHECK(parameter_at(t, operations[1].bias).name == "fc2.bias");
  CHECK(t.program.first_parameter == std::vector<size_t>{0, 2, 4});
}

TEST_CASE("lenet keeps its shapes, with pooling before ReLU") {
  const Translated t = translate("lenet");
  CHECK(kinds(t.program) == std::vector<int>{DLFLOW_GPU_CONVOLUTION, DLFLOW_GPU_CONVOLUTION,
                                             DLFLOW_GPU_MAX_POOL, DLFLOW_GPU_LINEAR,
                                             DLFLOW_GPU_LINEAR});
  const auto& pool = t.program.operations[2];
  CHECK(pool.relu == 1);
  CHECK(pool.kernel_height == 2);
  CHECK(pool.stride == 2);
  const DlflowGpuValue& pooled = t.program.values[size_t(pool.output)];
  CHECK(pooled.channels == 64);
  CHECK(pooled.height == 12);
  CHECK(pooled.width == 12);
  CHECK(t.program.operations[3].input == pool.output);  // 64 * 12 * 12 features
}

TEST_CASE(
    "resnet20 adds its residuals in batch normalisation, and each value has one first gradient") {
  const Translated t = translate("resnet20");
  const auto& operations = t.program.operations;
  CHECK(std::ranges::count(kinds(t.program), int(DLFLOW_GPU_CONVOLUTION)) == 21);
  CHECK(std::ranges::count(kinds(t.program), int(DLFLOW_GPU_BATCH_NORM)) == 21);
  CHECK(std::ranges::count(kinds(t.program), int(DLFLOW_GPU_ADD)) == 0);
  CHECK(std::ranges::count_if(operations, [](const auto& o) { return o.second >= 0; }) == 9);

  const auto& pool = operations[operations.size() - 2];
  CHECK(pool.kind == DLFLOW_GPU_AVERAGE_POOL);
  CHECK(pool.kernel_height == 7);
  CHECK(pool.kernel_width == 7);

  std::vector<int> writes(t.program.values.size());
  std::vector<bool> begun(t.program.values.size());
  for (auto o = operations.rbegin(); o != operations.rend(); ++o) {
    for (const auto& [value, how] :
         {std::pair(o->input, o->input_gradient), std::pair(o->second, o->second_gradient)}) {
      if (how == DLFLOW_GPU_NO_GRADIENT) continue;
      if (how == DLFLOW_GPU_WRITE) ++writes[size_t(value)];
      CHECK((how == DLFLOW_GPU_WRITE) != begun[size_t(value)]);
      begun[size_t(value)] = true;
    }
  }
  const int32_t scores = operations.back().output;
  for (size_t value = 1; value < writes.size(); ++value) {
    CHECK(writes[value] == (int32_t(value) == scores ? 0 : 1));
  }
}

TEST_CASE("values before the first weights have no gradient") {
  const Program program = program_of(
      "name: m\ninput: [2, 8, 6]\nlayers:\n- max_pool: {kernel: 2}\n- avg_pool: {kernel: 2}\n"
      "- flatten\n- linear: {features: 3}\n- relu\n- linear: {features: 2}\n");
  CHECK(program.values[0].channels == 2);
  CHECK(program.values[0].height == 8);
  CHECK(program.values[0].width == 6);
  std::vector<int32_t> kept, how;
  for (const auto& operation : program.operations) {
    kept.push_back(program.values[size_t(operation.output)].has_gradient);
    how.push_back(operation.input_gradient);
    CHECK(operation.second == -1);
    CHECK(operation.second_gradient == DLFLOW_GPU_NO_GRADIENT);
  }
  CHECK(kept == std::vector<int32_t>{0, 0, 1, 1});
  CHECK(how == std::vector<int32_t>{DLFLOW_GPU_NO_GRADIENT, DLFLOW_GPU_NO_GRADIENT,
                                    DLFLOW_GPU_NO_GRADIENT, DLFLOW_GPU_WRITE});
  // An operation without parameters has the index of the next operation that has some.
  CHECK(program.first_parameter == std::vector<size_t>{0, 0, 0, 2});

  const Program of_features = program_of("name: m\ninput: [4]\nlayers:\n- linear: {features: 3}\n");
  CHECK(of_features.values[0].has_gradient == 0);
  CHECK(of_features.operations[0].input_gradient == DLFLOW_GPU_NO_GRADIENT);
}

TEST_CASE("absent parameters of an operation have offset -1") {
  const Program program = program_of(
      "name: m\ninput: [2, 4, 4]\nlayers:\n- conv2d: {channels: 3, kernel: 3, bias: false}\n"
      "- max_pool: {kernel: 2}\n- flatten\n- linear: {features: 2}\n");
  REQUIRE(program.operations.size() == 3);
  for (const auto& operation : program.operations) {
    CHECK(operation.mean == -1);
    CHECK(operation.variance == -1);
  }
  CHECK(program.operations[0].weight >= 0);
  CHECK(program.operations[0].bias == -1);
  CHECK(program.operations[1].weight == -1);
  CHECK(program.operations[1].bias == -1);
  CHECK(program.operations[2].weight >= 0);
  CHECK(program.operations[2].bias >= 0);
}

TEST_CASE("parameters are announced from the last to the first, all of them") {
  for (const char* name : {"mlp", "lenet", "resnet20"}) {
    const Translated t = translate(name);
    CHECK(std::ranges::is_sorted(t.program.first_parameter));
    CHECK(t.program.first_parameter.front() == 0);
    for (size_t i = 0; i < t.program.operations.size(); ++i) {
      const auto& o = t.program.operations[i];
      if (o.weight < 0) continue;
      const size_t first = t.program.first_parameter[i];
      CHECK(t.layout->parameters()[first].offset == size_t(o.weight));
    }
  }
}
