#include <algorithm>
#include <vector>

#include "runtime/collectives/folding.h"
#include "runtime/compress/message_sum.h"
#include "runtime/compress/methods.h"
#include "runtime/compress/sparse_message.h"

namespace dlflow::runtime {
namespace {

using Message = std::vector<std::byte>;

/// The entries of one rank, and which of them have survived all merges so far.
class Contribution {
 public:
  explicit Contribution(const Message& message)
      : indices_(sparse_view(std::span<const std::byte>(message)).indices),
        survives_(indices_.size(), std::byte{1}) {}

  /// Drops the entries that are not in `merged`.
  void merged_into(const Message& merged) {
    const auto kept = sparse_view(std::span<const std::byte>(merged)).indices;
    auto at = kept.begin();
    for (size_t i = 0; i < indices_.size(); ++i) {
      at = std::lower_bound(at, kept.end(), indices_[i]);
      if (at == kept.end() || *at != indices_[i]) survives_[i] = std::byte{0};
    }
  }

  /// One byte per entry.
  std::span<std::byte> survives() { return survives_; }

 private:
  std::span<const uint32_t> indices_;
  std::vector<std::byte> survives_;
};

/// Replaces `mine` by the largest entries of its sum with `theirs`, which has as many entries.
/// Swapping the two gives the same bits.
void merge(Message& mine, const Message& theirs) {
  const auto left = sparse_view(std::span<const std::byte>(mine));
  const auto right = sparse_view(std::span<const std::byte>(theirs));
  std::vector<uint32_t> indices;
  std::vector<float> values;
  for (size_t l = 0, r = 0; l < left.indices.size() || r < right.indices.size();) {
    const uint32_t from_left = l < left.indices.size() ? left.indices[l] : UINT32_MAX;
    const uint32_t from_right = r < right.indices.size() ? right.indices[r] : UINT32_MAX;
    const uint32_t index = std::min(from_left, from_right);
    float value = 0;
    if (from_left == index) value += left.values[l++];
    if (from_right == index) value += right.values[r++];
    indices.push_back(index);
    values.push_back(value);
  }
  const auto kept = sparse_view(std::span(mine));
  select_largest(values, kept.indices);  // indices into `values`
  for (size_t i = 0; i < kept.indices.size(); ++i) {
    kept.values[i] = values[kept.indices[i]];
    kept.indices[i] = indices[kept.indices[i]];
  }
}

/// Entries that did not survive become unsent again.
void take_back(const Message& sent, std::span<const std::byte> survives,
               std::span<const float> velocity_before, const Unsent& unsent) {
  const auto entries = sparse_view(std::span<const std::byte>(sent));
  for (size_t i = 0; i < entries.indices.size(); ++i) {
    if (survives[i] != std::byte{0}) continue;
    const uint32_t index = entries.indices[i];
    unsent.error[index] += entries.values[i];
    if (!unsent.velocity.empty()) unsent.velocity[index] = velocity_before[index];
  }
}

/// Hands this rank's message to `partner`, and receives the result.
Task merge_by_partner(Link link, int partner, Message& result, Contribution& own) {
  co_await link.send(result, partner);
  Messages news = link.messages();
  link.receive(news, result, partner);
  link.receive(news, own.survives(), partner);
  co_await news;
}

Task merge_with_others(Link link, const Folding& folding, Message& result, Contribution& own) {
  Message guest(folding.takes_over() ? result.size() : 0), theirs(result.size());
  if (folding.takes_over()) {
    co_await link.receive(guest, folding.partner());
    merge(result, guest);
    own.merged_into(result);
  }
  Contribution of_guest(guest);
  of_guest.merged_into(result);
  for (int distance = 1; distance < folding.core_size(); distance *= 2) {
    const int peer = folding.name(folding.core_rank() ^ distance);
    co_await link.exchange(result, peer, theirs, peer);
    merge(result, theirs);
    own.merged_into(result);
    of_guest.merged_into(result);
  }
  if (!folding.takes_over()) co_return;
  Messages news = link.messages();
  link.send(news, result, folding.partner());
  link.send(news, of_guest.survives(), folding.partner());
  co_await news;
}

}  // namespace

Task sum_of_global_top(Link link, const Compressor& compressor, Occasion occasion, Unsent unsent,
                       std::span<float> sum) {
  const std::vector<float> velocity(unsent.velocity.begin(), unsent.velocity.end());
  Message sent(compressor.message_bytes(sum.size(), occasion));
  compress(compressor, occasion, unsent, sent);
  Message result = sent;
  Contribution own(sent);
  const Folding folding(link);
  if (folding.hands_over()) {
    co_await merge_by_partner(link, folding.partner(), result, own);
  } else {
    co_await merge_with_others(link, folding, result, own);
  }
  take_back(sent, own.survives(), velocity, unsent);
  std::ranges::fill(sum, 0.0f);
  compressor.add(result, occasion, 1, sum);
}

}  // namespace dlflow::runtime
