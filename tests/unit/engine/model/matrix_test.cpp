#include "base/error.h"
#include "engine/model/workflow.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace std::chrono_literals;

namespace {

const Matrix kTwoAxes = {
    .axes = {{"lr", {0.1, 0.5}}, {"width", {32, 64}}}, .include = {}, .exclude = {}};

std::vector<std::string> labels(const Matrix& matrix) {
  std::vector<std::string> found;
  for (const Json& element : matrix_elements(matrix)) found.push_back(element_label(element));
  return found;
}

}  // namespace

TEST_CASE("elements come in order, the last axis fastest", "[matrix]") {
  CHECK(labels(kTwoAxes) == std::vector<std::string>{"lr=0.1,width=32", "lr=0.1,width=64",
                                                     "lr=0.5,width=32", "lr=0.5,width=64"});
  CHECK(max_elements(kTwoAxes) == 4);
}

TEST_CASE("without a matrix there is one element without a label", "[matrix]") {
  CHECK(matrix_elements({}) == std::vector<Json>{Json::object()});
  CHECK(labels({}) == std::vector<std::string>{""});
}

TEST_CASE("exclude removes elements, include adds them", "[matrix]") {
  Matrix matrix = kTwoAxes;
  matrix.exclude = {{{"lr", 0.5}}, {{"lr", 0.1}, {"width", 64}}};
  matrix.include = {{{"lr", 1}, {"width", 8}}};
  CHECK(labels(matrix) == std::vector<std::string>{"lr=0.1,width=32", "lr=1,width=8"});
  CHECK(axis_values(matrix, "lr") == std::vector<Json>{0.1, 0.5, 1});
}

TEST_CASE("include without axes makes a matrix", "[matrix]") {
  const Matrix matrix = {.axes = {}, .include = {{{"net", "a b/ü"}}}, .exclude = {}};
  CHECK(labels(matrix) == std::vector<std::string>{"net=a_b___"});
  CHECK(axis_names(matrix) == std::vector<std::string>{"net"});
}

TEST_CASE("an element of mappings is named by their keys, or by their name", "[matrix]") {
  const Matrix matrix = {
      .axes = {{"case", {{{"net", "a"}, {"sizes", {1, 2}}}, {{"net", "b"}}}}, {"lr", {0.1}}},
      .include = {},
      .exclude = {}};
  CHECK(labels(matrix) ==
        std::vector<std::string>{"case.net=a,case.sizes=_1,2_,lr=0.1", "case.net=b,lr=0.1"});
  CHECK(element_label({{"case", {{"name", "big"}, {"batch", 4096}}}}) == "case=big");
}

TEST_CASE("zipped axes advance together, value by value", "[matrix]") {
  const Matrix matrix = {.axes = {{"net", {"a", "b"}}, {"seed", {1, 2}}, {"batch", {32, 64}}},
                         .include = {},
                         .exclude = {},
                         .zip = {"batch", "net"}};
  CHECK(labels(matrix) == std::vector<std::string>{"batch=32,net=a,seed=1", "batch=32,net=a,seed=2",
                                                   "batch=64,net=b,seed=1",
                                                   "batch=64,net=b,seed=2"});
  CHECK(max_elements(matrix) == 4);
  CHECK(is_in_product(matrix, {{"net", "a"}, {"seed", 2}, {"batch", 32}}));
  CHECK_FALSE(is_in_product(matrix, {{"net", "a"}, {"seed", 2}, {"batch", 64}}));
  CHECK_FALSE(is_in_product(matrix, {{"net", "a"}, {"seed", 3}, {"batch", 32}}));
}

TEST_CASE("a part of a mapping is enough to exclude elements", "[matrix]") {
  const Matrix matrix = {.axes = {{"case", {{{"net", "a"}, {"b", 1}}, {{"net", "c"}, {"b", 1}}}}},
                         .include = {},
                         .exclude = {{{"case", {{"net", "a"}}}}}};
  CHECK(labels(matrix) == std::vector<std::string>{"case.b=1,case.net=c"});
  CHECK(is_part_of({{"x", 1}}, {{"x", 1}, {"y", 2}}));
  CHECK_FALSE(is_part_of({{"x", 1}}, {{"x", 2}}));
  CHECK_FALSE(is_part_of({{"x", 1}}, Json("x")));
}

TEST_CASE("a product larger than any number is still counted as large", "[matrix]") {
  Matrix matrix;
  for (int axis = 0; axis < 8; ++axis) {
    matrix.axes.push_back({std::to_string(axis), std::vector<Json>(1000, 0)});
  }
  CHECK(max_elements(matrix) == SIZE_MAX);
}

TEST_CASE("resources are unchanged after their conversion to JSON and back", "[resources]") {
  const Resources all = {4, 2, 1, 3u << 30, 90min};
  CHECK(resources_from_json(to_json(all)) == all);
  CHECK(resources_from_json(to_json(Resources{})) == Resources{});
  CHECK(resources_from_json(Json::object()) == Resources{.alone = true});
  CHECK(resources_from_json(to_json(Resources{.alone = true})) == Resources{.alone = true});
  CHECK_FALSE(resources_from_json({{"ranks", 1}}).alone);
  CHECK_FALSE(resources_from_json({{"nodes", 1}}).alone);
  CHECK_FALSE(resources_from_json({{"ranks_per_node", 1}}).alone);
}

TEST_CASE("an error in resources quotes the wrong text", "[resources]") {
  CHECK_THROWS_WITH(resources_from_json({{"ranks", 0}}),
                    "resources.ranks must be a positive integer or auto, not 0");
  CHECK_THROWS_WITH(
      resources_from_json({{"memory", "lots"}}),
      "resources.memory: 'lots' is not a size of at least 1 MiB; write 512MiB, 2GiB or "
      "1.5GB");
  CHECK_THROWS_WITH(resources_from_json({{"ranks", 3000000000}}),
                    "resources.ranks must be a positive integer or auto, not 3000000000");
  CHECK_THROWS_AS(resources_from_json(3), Error);
}
