#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/http_request.h"
#include "base/parse_json.h"
#include "base/process.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "engine/track/mlflow.h"

namespace dlflow {
namespace {

Json pairs(const std::vector<std::pair<std::string, std::string>>& all) {
  Json list = Json::array();
  for (const auto& [key, value] : all) list.push_back({{"key", key}, {"value", value}});
  return list;
}

/// A number in protobuf's JSON.
Json number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

/// MLflow's interface over HTTP, through curl like all transfers of dlflow.
class RestStore : public MlflowStore {
 public:
  RestStore(std::string address, std::chrono::milliseconds patience)
      : address_(std::move(address)), patience_(patience), begun_(Clock::now()) {
    while (address_.ends_with('/')) address_.pop_back();
    if (!find_program("curl", environment_variable("PATH"))) {
      throw Error(Errc::NotFound, "`track: {mlflow: " + address_ + "}` needs curl");
    }
  }

  void use_experiment(const std::string& name) override {
    const Json found =
        post("experiments/search", {{"filter", "name = '" + name + "'"}, {"max_results", 1}});
    const Json list = found.value("experiments", Json::array());
    experiment_ = list.empty()
                      ? post("experiments/create", {{"name", name}}).value("experiment_id", "")
                      : list.at(0).value("experiment_id", "");
  }

  std::string create(const MlflowRun& run) override {
    const Json answer = post("runs/create", {{"experiment_id", experiment_},
                                             {"run_name", run.name},
                                             {"start_time", to_ms(run.started)},
                                             {"tags", pairs(run.tags)}});
    const std::string id =
        answer.value("run", Json::object()).value("info", Json::object()).value("run_id", "");
    if (id.empty()) fail("runs/create", "its answer names no run");
    return id;
  }

  /// create() has sent the tags.
  void describe(const std::string& id, const MlflowRun& run) override {
    for (size_t begin = 0; begin < run.params.size(); begin += kMostParams) {
      const std::vector part(
          run.params.begin() + long(begin),
          run.params.begin() + long(std::min(run.params.size(), begin + kMostParams)));
      post("runs/log-batch", {{"run_id", id}, {"params", pairs(part)}});
    }
  }

  void update(const std::string& id, const MlflowRun& run) override {
    Json update = {{"run_id", id}, {"status", run.status}, {"run_name", run.name}};
    if (run.ended) update["end_time"] = to_ms(*run.ended);
    post("runs/update", update);
  }

  void log(const std::string& id, std::span<const MlflowMetric> metrics) override {
    for (; !metrics.empty(); metrics = metrics.subspan(std::min(kMostMetrics, metrics.size()))) {
      Json list = Json::array();
      for (const MlflowMetric& metric : metrics.first(std::min(kMostMetrics, metrics.size()))) {
        list.push_back({{"key", metric.key},
                        {"value", number(metric.value)},
                        {"timestamp", to_ms(metric.at)},
                        {"step", metric.step}});
      }
      post("runs/log-batch", {{"run_id", id}, {"metrics", std::move(list)}});
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMostMetrics = 1000, kMostParams = 100;  // MLflow's limits per request
  static constexpr const char* kStatus = "\\n%{http_code}";  // on its own line after the answer
  static constexpr std::chrono::milliseconds kLongest = std::chrono::seconds(30);  // per request

  [[noreturn]] void fail(const std::string& what, const std::string& cause) const {
    throw Error(Errc::Unavailable,
                "MLflow at " + address_ + " did not accept " + what + ": " + cause);
  }

  /// Formats a time for curl.
  static std::string seconds(std::chrono::milliseconds time) {
    return std::to_string(time.count() / 1000) + "." +
           std::to_string(1000 + time.count() % 1000).substr(1);
  }

  /// The rest of the time for all requests; 0 if it has run out.
  std::chrono::milliseconds left() const {
    const auto past = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun_);
    return std::max(patience_ - past, std::chrono::milliseconds(0));
  }

  [[noreturn]] void give_up(const std::string& what) const {
    fail(what, "it did not finish within " + std::to_string(patience_.count() / 1000) +
                   " s; `dlflow sync RUN` waits longer");
  }

  Json post(const std::string& what, const Json& content) const {
    const std::chrono::milliseconds limit = std::min(left(), kLongest);
    if (limit.count() == 0) give_up(what);
    const std::filesystem::path body = scratch_.path() / "body";
    write_file_atomic(body, text_of(content));
    const HttpCall call =
        http_call({.url = address_ + "/api/2.0/mlflow/" + what,
                   .headers = {"Content-Type: application/json"},
                   .options = {"--connect-timeout", "3", "--max-time", seconds(limit),
                               "--data-binary", "@" + body.string(), "--write-out", kStatus}});
    Command command;
    command.argv = call.argv;
    command.environment = current_environment();
    const Output output =
        run(std::move(command), OutputOptions{.input = call.settings, .collect_errors = true});
    const size_t end = std::min(output.text.rfind('\n'), output.text.size());
    const bool refused = output.text.substr(end) >= "\n400";
    const Json answer = parse_json(output.text.substr(0, end), kForeignJson);
    if (output.status.code != 0 || refused) {
      if (answer.is_object() && answer.contains("message")) {
        fail(what, escaped(text_or_dump(answer.at("message"))));
      }
      if (left().count() == 0) give_up(what);
      const std::string_view cause = trim(output.errors);
      if (refused) fail(what, "it answered with status " + escaped(output.text.substr(end + 1)));
      fail(what, cause.empty() ? "curl ended with exit status " + std::to_string(output.status.code)
                               : escaped(cause));
    }
    if (!answer.is_object()) fail(what, "its answer is not JSON");
    return answer;
  }

  /// Replaces invalid UTF-8, so that one such name or value does not stop the rest.
  static std::string text_of(const Json& content) {
    return content.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  const TemporaryFolder scratch_{std::filesystem::temp_directory_path() / "dlflow-mlflow"};
  std::string address_, experiment_;
  std::chrono::milliseconds patience_;
  Clock::time_point begun_;
};

/// Accepts only ASCII: in the server's locale, other characters may not be letters.
bool is_allowed(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-. :").find(c) != std::string_view::npos;
}

/// A part of a name between slashes; MLflow requires a normalised relative path.
std::string part_of_name(std::string_view part) {
  if (part.empty() || part == ".") return "_";
  if (part == "..") return "__";
  std::string name;
  for (const char c : part) {
    const bool continues = (static_cast<unsigned char>(c) & 0xC0) == 0x80;  // inside a character of
                                                                            // UTF-8
    if (!continues) name += is_allowed(c) ? c : '_';
  }
  return name.empty() ? "_" : name;
}

}  // namespace

std::unique_ptr<MlflowStore> open_mlflow(const std::string& address,
                                         std::chrono::milliseconds patience) {
  return std::make_unique<RestStore>(address, patience);
}

std::string mlflow_name(std::string_view name) {
  constexpr size_t kLongest = 250;
  std::string made;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    if (begin > 0) made += '/';
    made += part_of_name(name.substr(begin, end - begin));
    begin = end + 1;
  }
  if (made.size() <= kLongest) return made;
  made.resize(kLongest);
  for (auto at = made.rbegin(); *at == '/' || *at == '.'; ++at) *at = '_';
  return made;
}

}  // namespace dlflow
