#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace dlflow::runtime {

/// The timeline of one rank: named spans of time, for as long as it records; else every call is one
/// comparison. One thread uses it.
class Timeline {
 public:
  using Clock = std::chrono::steady_clock;

  /// The rows of the picture. Communication runs beside computation; what is exposed of it, because
  /// nothing else was left to do, is Waiting.
  enum class Row { Step, Computation, Communication, Waiting };

  struct Span {
    Row row;
    std::string name;
    Clock::time_point begin, end;
  };

  void start() { recording_ = true; }
  void stop() { recording_ = false; }
  bool recording() const { return recording_; }

  /// Adds a span that ends now, if this records.
  void add(Row row, std::string_view name, Clock::time_point begin);

  /// Zero unless recording.
  Clock::time_point now() const { return recording_ ? Clock::now() : Clock::time_point(); }

  const std::vector<Span>& spans() const { return spans_; }

 private:
  bool recording_ = false;
  std::vector<Span> spans_;
};

/// The names of spans of Row::Computation that are not those of layers.
inline constexpr std::string_view kLoadSpan = "load", kUpdateSpan = "update",
                                  kSumSpan = "sum of gradients";

/// A span from construction to destruction. `name` must live as long.
class Timed {
 public:
  Timed(Timeline& timeline, Timeline::Row row, std::string_view name)
      : timeline_(timeline), row_(row), name_(name), begin_(timeline.now()) {}
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;
  ~Timed() { timeline_.add(row_, name_, begin_); }

 private:
  Timeline& timeline_;
  Timeline::Row row_;
  std::string_view name_;
  Timeline::Clock::time_point begin_;
};

/// `timeline`'s spans as events of Chrome's trace format, separated by commas: process `rank`,
/// called "rank 1 (node)", a thread per row, times in microseconds after `origin`.
/// Source: the Trace Event Format document of Chromium's catapult; Perfetto reads it, too.
std::string chrome_events(const Timeline& timeline, int rank, const std::string& node,
                          Timeline::Clock::time_point origin);

}  // namespace dlflow::runtime
