#include "runtime/cooperation/averaging.h"

#include <algorithm>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kReportFloats = 3;

}  // namespace

StepReport Averaging::average(std::span<const std::span<float>> state, const StepReport& mine) {
  size_t size = kReportFloats;
  for (const auto& part : state) size += part.size();
  if (!sum_) sum_.emplace(comm_, size, AllreduceOptions{.rules = rules_});
  const std::span<float> values = sum_->values();
  DLFLOW_CHECK(values.size() == size);

  auto end = values.begin();
  for (const auto& part : state) end = std::ranges::copy(part, end).out;
  const std::span<float> report = values.last(kReportFloats);
  report[0] = mine.loss;
  report[1] = mine.stops;
  report[2] = mine.saves;
  comm_.submit({"all-reduce", "weights to average", size, "fp32"});
  sum_->wait(sum_->start(0, size));

  const float ranks = float(comm_.size());
  auto sums = values.begin();
  for (const auto& part : state) {
    for (float& number : part) number = *sums++ / ranks;
  }
  return {report[0], report[1], report[2]};
}

}  // namespace dlflow::runtime
