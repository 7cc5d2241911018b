#include "runtime/timeline/timeline.h"

#include <array>

#include "base/json.h"

namespace dlflow::runtime {
namespace {

constexpr std::array kRows = {"steps", "computation", "communication", "waiting for communication"};

double microseconds(Timeline::Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

Json metadata(const char* what, int rank, size_t row, const Json& value) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", row}, {"args", value}};
}

}  // namespace

void Timeline::add(Row row, std::string_view name, Clock::time_point begin) {
  // Spans that began before the recording are left out.
  if (recording_ && begin != Clock::time_point()) {
    spans_.push_back({row, std::string(name), begin, Clock::now()});
  }
}

std::string chrome_events(const Timeline& timeline, int rank, const std::string& node,
                          Timeline::Clock::time_point origin) {
  const std::string process = "rank " + std::to_string(rank) + " (" + node + ")";
  std::string events = metadata("process_name", rank, 0, {{"name", process}}).dump();
  for (size_t row = 0; row < kRows.size(); ++row) {
    events += ",\n" + metadata("thread_name", rank, row, {{"name", kRows[row]}}).dump() + ",\n" +
              metadata("thread_sort_index", rank, row, {{"sort_index", row}}).dump();
  }
  for (const Timeline::Span& span : timeline.spans()) {
    const Json event = {{"ph", "X"},
                        {"name", span.name},
                        {"pid", rank},
                        {"tid", size_t(span.row)},
                        {"ts", microseconds(span.begin - origin)},
                        {"dur", microseconds(span.end - span.begin)}};
    events += ",\n" + event.dump();
  }
  return events;
}

}  // namespace dlflow::runtime
