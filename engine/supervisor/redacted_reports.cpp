#include "engine/supervisor/redacted_reports.h"

#include <fcntl.h>

#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/handle.h"
#include "base/parse_json.h"
#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// JSON writes some characters in other ways, so that it is read first; what is no JSON is text.
std::string redacted(const std::string& text, const Redactor& redactor) {
  const Json json = parse_json(text);
  if (json.is_discarded()) return redactor.text(text);
  const Json clean = redactor.json(json);
  return clean == json ? text : clean.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string redacted_lines(const std::string& text, const Redactor& redactor) {
  std::vector<std::string> lines = split(text, '\n');
  for (std::string& line : lines) line = redacted(line, redactor);
  return join(lines, "\n");
}

void replace_file(const fs::path& file, const Redactor& redactor) {
  const auto text = read_file_if_exists(file);
  if (!text) return;
  const std::string clean = redacted(*text, redactor);
  if (clean != *text) write_file_atomic(file, clean);
}

void append_to(const fs::path& file, const std::string& text) {
  const FileDescriptor opened(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!opened) throw_errno("cannot open " + file.string(), errno);
  write_all(opened.get(), text, file);
}

}  // namespace

RedactedMetrics::RedactedMetrics(const AttemptFiles& files, Redactor redactor)
    : given_(files.given_metrics()), shown_(files.metrics()), redactor_(std::move(redactor)) {
  passed_on_ = read_file_if_exists(shown_).value_or("");
  write_file(given_, passed_on_);
}

/// Mostly it has grown; a program may also write it anew.
void RedactedMetrics::pass_on(const std::string& text) {
  if (text == passed_on_) return;
  if (text.starts_with(passed_on_)) {
    append_to(shown_, redacted_lines(text.substr(passed_on_.size()), redactor_));
  } else {
    write_file_atomic(shown_, redacted_lines(text, redactor_));
  }
  passed_on_ = text;
}

void RedactedMetrics::look() {
  constexpr std::chrono::seconds kPause{1};
  const auto now = std::chrono::steady_clock::now();
  if (now < last_look_ + kPause) return;
  last_look_ = now;
  try {
    const std::string text = read_file_if_exists(given_).value_or(passed_on_);
    pass_on(text.substr(0, text.rfind('\n') + 1));
  } catch (const std::exception&) {
  }
}

void RedactedMetrics::finish() {
  if (const auto text = read_file_if_exists(given_)) pass_on(*text);
  std::error_code ignored;
  fs::remove(given_, ignored);
}

void redact_reports(const AttemptFiles& files, const Redactor& redactor) {
  replace_file(files.summary(), redactor);
  replace_file(files.outputs_file(), redactor);
}

}  // namespace dlflow
