#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlflow::runtime {

/// A collective call as a rank describes it: everything that must be the same on all ranks.
struct Call {
  std::string_view operation = {};  ///< "all-reduce", "all-reduce (max)", "broadcast"
  std::string_view name = {};       ///< of the reduced values; may be empty
  uint64_t num_elements = 0;
  std::string_view type = {};  ///< "fp32", "bytes"; may be empty
  int root = -1;               ///< -1: none
};

/// A recorded Call in plain memory, which ranks can send; texts that are too long are cut off.
struct CallRecord {
  uint64_t hash = 0;  ///< of this call and all before it, with uncut texts
  uint64_t num_elements = 0;
  int32_t root = -1;
  std::array<char, 20> operation{};
  std::array<char, 8> type{};
  std::array<char, 72> name{};
};

/// "all-reduce 'conv1.weight' of 9216 fp32", "broadcast of 64 bytes from rank 2", "barrier".
std::string to_string(const CallRecord& call);

/// The collective calls of one rank: their number, a hash over all of them, and the newest ones in
/// full. One thread adds; other threads may read. A call costs about 0.05 us.
class CallLog {
 public:
  static constexpr size_t kKept = 4096;

  struct Head {
    uint64_t count = 0;
    uint64_t hash = 0;  ///< equal counts and hashes mean the same calls in the same order
  };

  CallLog();

  void add(const Call& call);

  Head head() const;

  /// The hash after the first `count` calls; nothing if there are fewer, or kKept or more followed.
  std::optional<uint64_t> hash_after(uint64_t count) const;

  struct Recent {
    uint64_t count = 0;              ///< of all calls
    std::vector<CallRecord> newest;  ///< the last one is call number `count`, counted from 1
  };
  Recent recent() const;

 private:
  mutable std::mutex mutex_;  // held briefly by readers, ten times a second
  uint64_t count_ = 0;
  std::vector<CallRecord> kept_;  // call n at (n - 1) % kKept
};

}  // namespace dlflow::runtime
