#include "runtime/timeline/step_times.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

using Row = Timeline::Row;
using Span = Timeline::Span;

double seconds(Timeline::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

bool is_within(const Span& inner, const Span& outer) {
  return inner.begin >= outer.begin && inner.end <= outer.end;
}

/// Those of the rank's own thread, outer ones before those within.
std::vector<const Span*> nested(std::span<const Span> spans) {
  std::vector<const Span*> sorted;
  for (const Span& span : spans) {
    if (span.row != Row::Communication) sorted.push_back(&span);
  }
  std::ranges::stable_sort(sorted, {}, [](const Span* span) {
    return std::tuple(span->begin, -span->end.time_since_epoch(), span->row);
  });
  return sorted;
}

void count(const Span& span, double time, StepTimes& times) {
  if (span.row == Row::Step) times.other += time;
  if (span.row == Row::Waiting) times.waiting += time;
  if (span.row == Row::Computation) times.computation[span.name] += time;
}

/// What a span has is taken from the one around it.
void add_computation(std::span<const Span> spans, StepTimes& times) {
  std::vector<const Span*> around;
  for (const Span* span : nested(spans)) {
    while (!around.empty() && !is_within(*span, *around.back())) around.pop_back();
    if (around.empty() && span->row != Row::Step) continue;
    const double time = seconds(span->end - span->begin);
    if (!around.empty()) count(*around.back(), -time, times);
    count(*span, time, times);
    around.push_back(span);
  }
}

/// Of each step the times when its sums start.
std::vector<std::vector<double>> starts_of_sums(std::span<const Span> spans) {
  std::vector<std::vector<double>> all;
  for (const Span& step : spans) {
    if (step.row != Row::Step) continue;
    std::vector<double>& starts = all.emplace_back();
    for (const Span& sum : spans) {
      const bool starts_here = sum.begin >= step.begin && sum.begin < step.end;
      if (sum.row != Row::Communication || !starts_here) continue;
      starts.push_back(seconds(sum.begin - step.begin));
    }
    std::ranges::sort(starts);
  }
  return all;
}

void add_sums(std::span<const Span> spans, StepTimes& times) {
  std::vector<std::vector<double>> steps = starts_of_sums(spans);
  if (steps.empty()) return;
  const size_t sums = steps.front().size();
  std::erase_if(steps, [&](const auto& starts) { return starts.size() != sums; });
  for (size_t sum = 0; sum < sums; ++sum) {
    std::vector<double> starts;
    for (const auto& step : steps) starts.push_back(step[sum]);
    times.ready.push_back(quantile(starts, 0.5));
  }
}

}  // namespace

StepTimes step_times(std::span<const Span> spans) {
  StepTimes times;
  for (const Span& span : spans) {
    if (span.row == Row::Step) times.steps.push_back(seconds(span.end - span.begin));
  }
  add_computation(spans, times);
  add_sums(spans, times);
  return times;
}

double quantile(std::span<const double> values, double part) {
  DLFLOW_CHECK(!values.empty());
  std::vector<double> sorted(values.begin(), values.end());
  const auto place = sorted.begin() + long(double(sorted.size() - 1) * part);
  std::ranges::nth_element(sorted, place);
  return *place;
}

}  // namespace dlflow::runtime
