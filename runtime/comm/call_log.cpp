#include "runtime/comm/call_log.h"

#include <algorithm>
#include <cstring>

namespace dlflow::runtime {
namespace {

uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15;  // 2^64 divided by the golden ratio
  return hash ^ (hash >> 32);
}

uint64_t mix(uint64_t hash, std::string_view text) {
  hash = mix(hash, text.size());
  for (; !text.empty(); text.remove_prefix(std::min(text.size(), sizeof(uint64_t)))) {
    uint64_t word = 0;
    std::memcpy(&word, text.data(), std::min(text.size(), sizeof word));
    hash = mix(hash, word);
  }
  return hash;
}

/// Copies as much of `text` as fits, with a terminating zero.
template <size_t kSize>
void copy(std::string_view text, std::array<char, kSize>& into) {
  const size_t length = text.copy(into.data(), kSize - 1);
  into[length] = '\0';
}

/// Memory from another rank may lack the terminating zero.
template <size_t kSize>
std::string text_in(const std::array<char, kSize>& chars) {
  return {chars.begin(), std::find(chars.begin(), chars.end(), '\0')};
}

}  // namespace

std::string to_string(const CallRecord& call) {
  std::string text = text_in(call.operation);
  const std::string name = text_in(call.name), type = text_in(call.type);
  if (!name.empty()) text += " '" + name + "'";
  if (!type.empty()) text += " of " + std::to_string(call.num_elements) + " " + type;
  if (call.root >= 0) text += " from rank " + std::to_string(call.root);
  return text;
}

CallLog::CallLog() : kept_(kKept) {}

void CallLog::add(const Call& call) {
  const std::lock_guard lock(mutex_);
  uint64_t hash = count_ == 0 ? 0 : kept_[(count_ - 1) % kKept].hash;
  hash = mix(mix(hash, call.operation), call.name);
  hash = mix(mix(mix(hash, call.type), call.num_elements), uint64_t(call.root));
  CallRecord& record = kept_[count_++ % kKept];
  record.hash = hash;
  record.num_elements = call.num_elements;
  record.root = call.root;
  copy(call.operation, record.operation);
  copy(call.type, record.type);
  copy(call.name, record.name);
}

CallLog::Head CallLog::head() const {
  const std::lock_guard lock(mutex_);
  return {count_, count_ == 0 ? 0 : kept_[(count_ - 1) % kKept].hash};
}

std::optional<uint64_t> CallLog::hash_after(uint64_t count) const {
  const std::lock_guard lock(mutex_);
  if (count == 0) return 0;
  if (count > count_ || count_ - count >= kKept) return std::nullopt;
  return kept_[(count - 1) % kKept].hash;
}

CallLog::Recent CallLog::recent() const {
  const std::lock_guard lock(mutex_);
  Recent recent{count_, {}};
  for (uint64_t n = count_ - std::min<uint64_t>(count_, kKept); n < count_; ++n) {
    recent.newest.push_back(kept_[n % kKept]);
  }
  return recent;
}

}  // namespace dlflow::runtime
