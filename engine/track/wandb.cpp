#include "engine/track/wandb.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/protobuf.h"
#include "engine/track/times.h"

namespace dlflow {
namespace {

/// Numbers of fields, as wandb_internal.proto has them.
namespace field {
constexpr int kNum = 1;  // of Record
constexpr int kHistory = 2, kSummary = 3, kRun = 17, kExit = 18, kHeader = 21;
constexpr int kRunId = 1, kProject = 3, kConfig = 4, kGroup = 6, kName = 8, kStart = 17;
constexpr int kItem = 1, kHistoryStep = 2, kKey = 1, kValueJson = 16;
constexpr int kSeconds = 1, kNanos = 2, kExitCode = 1, kRuntime = 2;
}  // namespace field

/// Records in blocks.
class Log {
 public:
  Log() {
    bytes_ = ":W&B";
    append(0xBEE1, 2);
    append(0, 1);
  }

  void add(std::string_view record) {
    bool first = true;
    while (true) {
      const size_t left = kBlock - bytes_.size() % kBlock;
      if (left < kHead) {
        bytes_.append(left, '\0');
        continue;
      }
      const size_t size = std::min(record.size(), left - kHead);
      const bool last = size == record.size();
      add_part(record.substr(0, size), first ? (last ? kFull : kFirst) : (last ? kLast : kMiddle));
      if (last) return;
      record.remove_prefix(size);
      first = false;
    }
  }

  std::string take() && { return std::move(bytes_); }

 private:
  static constexpr size_t kBlock = 32768, kHead = 7;
  static constexpr uint8_t kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4;

  void add_part(std::string_view part, uint8_t type) {
    uLong crc = ::crc32(0, &type, 1);
    crc = ::crc32(crc, reinterpret_cast<const Bytef*>(part.data()), uInt(part.size()));
    append(crc, 4);
    append(part.size(), 2);
    append(type, 1);
    bytes_ += part;
  }

  void append(uint64_t value, int size) {
    for (int i = 0; i < size; ++i) bytes_ += char(value >> (8 * i));
  }

  std::string bytes_;
};

Message item(const std::string& key, const Json& value) {
  return Message()
      .add(field::kKey, std::string_view(key))
      .add(field::kValueJson,
           std::string_view(value.dump(-1, ' ', false, Json::error_handler_t::replace)));
}

Message items(const std::vector<std::pair<std::string, Json>>& all) {
  Message message;
  for (const auto& [key, value] : all) message.add(field::kItem, item(key, value));
  return message;
}

/// The numbers of one line.
struct Line {
  const CurvePoint* place = nullptr;
  std::map<std::string, double> values;
};

std::map<size_t, Line> lines_of(const Reported& reported) {
  std::map<size_t, Line> lines;
  for (const Curve& curve : reported.curves) {
    for (const CurvePoint& point : curve.points) {
      Line& line = lines[point.line];
      line.place = &point;
      line.values[curve.name] = point.value;
    }
  }
  return lines;
}

class File {
 public:
  explicit File(const WandbRun& run) : run_(run) {}

  std::string text(const Reported& reported) {
    add(field::kHeader, Message());
    add(field::kRun, run_record());
    double last = unix_seconds(run_.started);
    int64_t step = 0;
    for (const auto& [number, line] : lines_of(reported)) {
      last = line.place->at ? unix_seconds(*line.place->at) : last;
      add(field::kHistory, history(line, step++, last));
    }
    add(field::kSummary, items(run_.summary));
    add(field::kExit,
        Message()
            .add(field::kExitCode, uint64_t(run_.exit_code))
            .add(field::kRuntime, uint64_t(std::max(0.0, last - unix_seconds(run_.started)))));
    return std::move(log_).take();
  }

 private:
  void add(int kind, const Message& content) {
    log_.add(Message().add(field::kNum, ++records_).add(kind, content).bytes());
  }

  Message run_record() const {
    const auto began = run_.started.time_since_epoch().count();
    return Message()
        .add(field::kRunId, std::string_view(run_.id))
        .add(field::kProject, std::string_view(run_.project))
        .add(field::kConfig, items(run_.config))
        .add(field::kGroup, std::string_view(run_.group))
        .add(field::kName, std::string_view(run_.name))
        .add(field::kStart, Message()
                                .add(field::kSeconds, uint64_t(began / 1000))
                                .add(field::kNanos, uint64_t(began % 1000) * 1'000'000));
  }

  Message history(const Line& line, int64_t step, double at) const {
    Message message;
    for (const auto& [name, value] : line.values) {
      message.add(field::kItem, item(name, value));
    }
    message.add(field::kItem, item("step", line.place->step));
    message.add(field::kItem, item("epoch", line.place->epoch));
    message.add(field::kItem, item("_step", step));
    message.add(field::kItem, item("_timestamp", at));
    message.add(field::kItem, item("_runtime", at - unix_seconds(run_.started)));
    return message.add(field::kHistoryStep, Message().add(1, uint64_t(step)));
  }

  const WandbRun& run_;
  Log log_;
  uint64_t records_ = 0;
};

}  // namespace

std::string wandb_file(const WandbRun& run, const Reported& reported) {
  return File(run).text(reported);
}

}  // namespace dlflow
