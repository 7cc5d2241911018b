#include "runtime/watch/frames.h"

namespace dlflow::runtime {

std::string to_body(const WatchError& error) {
  return to_body(ErrorHead{error.fault(), error.code()}) + error.what();
}

std::optional<WatchError> error_from(std::string_view body) {
  std::string_view text;
  const auto head = from_body<ErrorHead>(body, &text);
  if (!head) return std::nullopt;
  return WatchError(head->fault, head->code, std::string(text));
}

std::string to_body(const CallLog::Recent& calls) {
  std::string body = to_body(calls.count);
  for (const CallRecord& call : calls.newest) body += to_body(call);
  return body;
}

CallLog::Recent calls_from(std::string_view body) {
  CallLog::Recent calls;
  calls.count = from_body<uint64_t>(body, &body).value_or(0);
  while (const auto call = from_body<CallRecord>(body, &body)) calls.newest.push_back(*call);
  return calls;
}

}  // namespace dlflow::runtime
