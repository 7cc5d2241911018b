#include "steps/train/check.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <string>
#include <vector>

#include "base/text.h"
#include "base/units.h"
#include "runtime/nn/layer_costs.h"
#include "runtime/nn/network.h"

namespace dlflow::steps {
namespace {

using runtime::LayerCost;
using Row = std::array<std::string, 5>;
constexpr size_t kFirstNumber = 3;  // of a row's columns

std::string count(int64_t number) { return number == 0 ? "" : format_count(uint64_t(number)); }

Row row_of(const runtime::Layer& layer, const LayerCost& cost) {
  const std::string kind = name(layer.kind);
  return {layer.name, kind, runtime::to_string(layer.shape), count(cost.parameters),
          count(cost.multiply_adds)};
}

/// Words to the left, numbers to the right.
void print(const std::vector<Row>& rows) {
  std::array<int, 5> width{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], int(row[i].size()));
  }
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(size_t(width[i]) - row[i].size(), ' ');
      line += (i == 0 ? "" : "  ") + (i < kFirstNumber ? row[i] + space : space + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::printf("%s\n", escaped(line).c_str());
  }
}

/// Memory that training takes for each sample of a rank's batch.
uint64_t bytes_per_sample(const runtime::Model& model) {
  const runtime::Network network(model, 1, runtime::Network::Mode::Training);
  return network.value_bytes();
}

}  // namespace

void print_model(const runtime::Model& model) {
  std::vector<Row> rows = {{"layer", "kind", "result", "parameters", "multiply-adds"}};
  for (const runtime::Layer& layer : model.layers) {
    rows.push_back(row_of(layer, cost_of(model, layer)));
  }
  const LayerCost total = cost_of(model);
  rows.push_back({"total", "", "", count(total.parameters), count(total.multiply_adds)});
  print(rows);
  const std::string weights = format_size(uint64_t(total.parameters) * sizeof(float));
  std::printf(
      "\nmemory of a rank: %s of weights, as much of gradients, and the state\n"
      "of the optimizer (sgd: as much again, adam: twice); %s for each sample\n",
      weights.c_str(), format_size(bytes_per_sample(model)).c_str());
}

}  // namespace dlflow::steps
