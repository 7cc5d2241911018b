#include "runtime/train/recording.h"

#include <limits>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "base/process.h"

namespace dlflow::runtime {
namespace {

using Clock = Timeline::Clock;

template <typename T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

int64_t ticks_now() { return Clock::now().time_since_epoch().count(); }

/// Returns the offset of `rank`'s clock from rank 0's. Called by rank 0.
int64_t clock_of(Communicator& comm, int rank) {
  int64_t offset = 0, fastest = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < 10; ++i) {
    const int64_t sent = ticks_now();
    comm.send({}, rank);
    int64_t theirs = 0;
    comm.receive(bytes_of(theirs), rank);
    const int64_t round_trip = ticks_now() - sent;
    if (round_trip >= fastest) continue;
    fastest = round_trip;
    offset = theirs - (sent + round_trip / 2);
  }
  return offset;
}

void answer_clock(Communicator& comm) {
  for (int i = 0; i < 10; ++i) {
    comm.receive({}, 0);
    int64_t now = ticks_now();
    comm.send(bytes_of(now), 0);
  }
}

Clock::time_point begin_of(const Timeline& timeline) {
  return timeline.spans().empty() ? Clock::now() : timeline.spans().front().begin;
}

/// Converts `time` to seconds since 1970.
double unix_seconds(Clock::time_point time) {
  const auto then = std::chrono::system_clock::now() - (Clock::now() - time);
  return std::chrono::duration<double>(then.time_since_epoch()).count();
}

std::string events_of_others(Communicator& comm, Clock::time_point origin) {
  std::string events;
  for (int rank = 1; rank < comm.size(); ++rank) {
    int64_t start = origin.time_since_epoch().count() + clock_of(comm, rank);
    comm.send(bytes_of(start), rank);
    uint64_t size = 0;
    comm.receive(bytes_of(size), rank);
    std::string theirs(size, ' ');
    comm.receive(std::as_writable_bytes(std::span(theirs)), rank);
    events += ",\n" + theirs;
  }
  return events;
}

/// Writes the timelines of all ranks to `file` on rank 0: JSON for Perfetto (ui.perfetto.dev) or
/// chrome://tracing. Collective.
///
/// `otherData.began_at` is the origin of the times, in seconds since 1970 by rank 0's node.
///
/// All times are converted to rank 0's clock. Each other rank answers ten requests with its own
/// time, which is taken as the middle of the fastest exchange (Cristian, Distributed Computing 3
/// (1989)), so that ranks agree to half of a message's round trip.
void write_timeline(Communicator& comm, const Timeline& timeline,
                    const std::filesystem::path& file) {
  if (comm.rank() == 0) {
    const Clock::time_point origin = begin_of(timeline);
    const std::string events =
        chrome_events(timeline, 0, host_name(), origin) + events_of_others(comm, origin);
    const Json about = {{"began_at", unix_seconds(origin)}};
    write_file_atomic(file, "{\"displayTimeUnit\": \"ms\", \"otherData\": " + about.dump() +
                                ", \"traceEvents\": [\n" + events + "\n]}\n");
    return;
  }
  answer_clock(comm);
  int64_t start = 0;
  comm.receive(bytes_of(start), 0);
  const std::string events =
      chrome_events(timeline, comm.rank(), host_name(), Clock::time_point(Clock::duration(start)));
  uint64_t size = events.size();
  comm.send(bytes_of(size), 0);
  comm.send(std::as_bytes(std::span(events)), 0);
}

}  // namespace

Recording::Recording(Communicator& comm, uint64_t num_steps, std::filesystem::path file)
    : comm_(comm), num_steps_(num_steps), file_(std::move(file)) {}

void Recording::begin_step() {
  if (steps_++ == kStepsBefore && num_steps_ > 0) timeline_.start();
}

void Recording::end_step() {
  if (steps_ == kStepsBefore + num_steps_) timeline_.stop();
}

void Recording::meet(uint64_t steps) {
  if (steps >= kStepsBefore + num_steps_) finish();
}

void Recording::finish() {
  timeline_.stop();
  if (num_steps_ > 0 && !std::exchange(written_, true)) write_timeline(comm_, timeline_, file_);
}

}  // namespace dlflow::runtime
