#include "base/fault.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace dlflow {
namespace {

struct Fault {
  std::string point;
  int calls_left = 0;
};

std::optional<Fault> fault_from_environment() {
  const char* text = std::getenv("DLFLOW_CRASH_AT");
  if (text == nullptr || *text == '\0') return std::nullopt;
  const std::string fault = text;
  const size_t colon = fault.find(':');
  const int call = colon == std::string::npos ? 1 : std::atoi(fault.c_str() + colon + 1);
  return Fault{fault.substr(0, colon), call};
}

std::function<void(std::string_view)>& test_action() {
  static std::function<void(std::string_view)> action;
  return action;
}

std::function<size_t(const std::filesystem::path&, size_t)>& test_answer() {
  static std::function<size_t(const std::filesystem::path&, size_t)> answer;
  return answer;
}

}  // namespace

size_t bytes_that_fit(const std::filesystem::path& path, size_t bytes) {
  return test_answer() ? test_answer()(path, bytes) : bytes;
}

void on_write(std::function<size_t(const std::filesystem::path& path, size_t bytes)> answer) {
  test_answer() = std::move(answer);
}

void on_crash_point(std::function<void(std::string_view point)> act) {
  test_action() = std::move(act);
}

void crash_point(std::string_view point) {
  if (test_action()) test_action()(point);
  static std::optional<Fault> fault = fault_from_environment();
  if (!fault || fault->point != point || --fault->calls_left != 0) return;
  if (const char* const mark = std::getenv("DLFLOW_CRASH_MARK")) {
    ::close(::open(mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  }
  ::kill(::getpid(), SIGKILL);
}

}  // namespace dlflow
