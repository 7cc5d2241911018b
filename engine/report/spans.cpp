#include "engine/report/spans.h"

#include <algorithm>

namespace dlflow {
namespace {

class Spans {
 public:
  void take(const JobEvent& event) {
    if (!event.state) return;
    const JobState state = *event.state;
    if (event.attempt > attempt_) {
      close(event);
      attempt_ = event.attempt;
      pass_ = 0;
    }
    const bool runs = state == JobState::Running;
    const bool waits = state == JobState::Submitting || state == JobState::Queued;
    if (waits && is_open() && !spans_.back().running) return;
    close(event);
    if (runs || waits) open(event, runs);
  }

  std::vector<JobSpan> result() && { return std::move(spans_); }

 private:
  bool is_open() const { return !spans_.empty() && !spans_.back().end; }

  void open(const JobEvent& event, bool running) {
    JobSpan span;
    span.running = running;
    span.attempt = attempt_;
    span.pass = running ? ++pass_ : 0;
    span.begin = event.at;
    if (!spans_.empty()) span.begin = std::max(span.begin, *spans_.back().end);
    span.node = running ? event.node : "";
    spans_.push_back(std::move(span));
  }

  void close(const JobEvent& event) {
    if (!is_open()) return;
    JobSpan& span = spans_.back();
    span.end = std::max(event.at, span.begin);
    span.outcome = event.state;
    if (span.running) span.reason = event.reason;
  }

  std::vector<JobSpan> spans_;
  int attempt_ = 0;
  int pass_ = 0;
};

}  // namespace

std::vector<JobSpan> spans_of(std::span<const JobEvent> events) {
  Spans spans;
  for (const JobEvent& event : events) spans.take(event);
  return std::move(spans).result();
}

}  // namespace dlflow
