#include "runtime/compress/compressed_sum.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/compress/message_sum.h"

namespace dlflow::runtime {
namespace {

/// Concatenates the pieces of `buffer`, which begins at element `first`.
std::vector<float> gather(std::span<const float> buffer, size_t first,
                          const std::vector<Piece>& pieces) {
  std::vector<float> gathered;
  for (const Piece& piece : pieces) {
    const auto part = buffer.subspan(piece.first - first, piece.count);
    gathered.insert(gathered.end(), part.begin(), part.end());
  }
  return gathered;
}

/// The inverse of gather().
void scatter(std::span<const float> gathered, size_t first, const std::vector<Piece>& pieces,
             std::span<float> buffer) {
  for (const Piece& piece : pieces) {
    std::ranges::copy(gathered.first(piece.count), buffer.begin() + long(piece.first - first));
    gathered = gathered.subspan(piece.count);
  }
}

}  // namespace

/// A range, divided into compressed pieces and the rest.
struct CompressedSum::Division {
  std::vector<Piece> compressed, rest;
};

CompressedSum::CompressedSum(const Compression& compression, CompressedParts parts,
                             size_t num_elements, uint64_t seed)
    : compression_(compression),
      parts_(std::move(parts)),
      num_elements_(num_elements),
      compressor_(make_compressor(compression.method)),
      residual_(make_aligned_floats(num_elements)) {
  now_.seed = seed;
  if (compression.method == CompressionMethod::PowerSgd) {
    power_sgd_.emplace(parts_.matrices, compression.rank, seed);
  }
  if (compression.method == CompressionMethod::Dgc) velocity_ = make_aligned_floats(num_elements);
}

void CompressedSum::begin(uint64_t step, uint64_t epoch) {
  has_begun_ = true;
  now_.step = step;
  now_.density = density_in_epoch(compression_, epoch);
}

CompressedSum::Division CompressedSum::divide(size_t first, size_t count) const {
  Division division;
  const size_t end = first + count;
  size_t at = first;
  const auto rest_until = [&](size_t next) {
    if (next > at) division.rest.push_back({at, next - at});
  };
  for (const Piece& piece : parts_.pieces) {
    const size_t begin = std::clamp(piece.first, first, end);
    const size_t stop = std::clamp(piece.first + piece.count, first, end);
    if (begin == stop) continue;
    rest_until(begin);
    division.compressed.push_back({begin, stop - begin});
    at = stop;
  }
  rest_until(end);
  return division;
}

/// Applies momentum to the elements of `piece` that have one; `values` begins at element `first`.
void CompressedSum::add_momentum(const Piece& piece, size_t first, std::span<float> values) {
  if (!velocity_) return;
  const size_t end = std::min(piece.first + piece.count, parts_.num_gradients);
  const size_t count = std::max(end, piece.first) - piece.first;
  correct_momentum(float(compression_.momentum), velocity().subspan(piece.first, count),
                   values.subspan(piece.first - first, count));
}

/// Also adds what other ranks left unsent in an earlier run with more ranks.
void CompressedSum::sum_alone(size_t first, std::span<float> values) {
  add_momentum({first, values.size()}, first, values);
  const std::span<float> unsent = residual().subspan(first, values.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] += std::exchange(unsent[i], 0.0f);
}

Task CompressedSum::sum(Link link, size_t first, std::span<float> values) {
  const Piece range{first, values.size()};
  if (std::ranges::find(ranges_, range) == ranges_.end()) ranges_.push_back(range);
  if (link.size() == 1) {
    sum_alone(first, values);
    co_return;
  }
  const Division division = divide(first, values.size());
  co_await sum_rest(link, division.rest, first, values);
  if (division.compressed.empty()) co_return;
  if (power_sgd_) {
    co_await power_sgd_->sum(link, first, values, residual().subspan(first, values.size()),
                             now_.step);
  } else {
    co_await sum_compressed(link, division.compressed, first, values);
  }
}

Task CompressedSum::sum_rest(Link link, const std::vector<Piece>& pieces, size_t first,
                             std::span<float> values) {
  for (const Piece& piece : pieces) add_momentum(piece, first, values);
  std::vector<float> rest = gather(values, first, pieces);
  co_await dense_sum(link, rest);
  scatter(rest, first, pieces, values);
}

Task CompressedSum::sum_compressed(Link link, const std::vector<Piece>& pieces, size_t first,
                                   std::span<float> values) {
  if (pieces.size() == 1) {  // avoids copies of a piece that may be large
    const auto [begin, count] = pieces.front();
    co_await sum_fed_back(link, first,
                          {residual().subspan(begin, count),
                           velocity_ ? velocity().subspan(begin, count) : std::span<float>()},
                          values.subspan(begin - first, count));
    co_return;
  }
  std::vector<float> sum = gather(values, first, pieces);
  std::vector<float> error = gather(residual(), 0, pieces), velocities;
  if (velocity_) velocities = gather(velocity(), 0, pieces);
  co_await sum_fed_back(link, first, {error, velocities}, sum);
  scatter(error, 0, pieces, residual());
  if (velocity_) scatter(velocities, 0, pieces, velocity());
  scatter(sum, first, pieces, values);
}

/// Error feedback: sums `values`, whose range begins at element `first`, and their unsent parts of
/// earlier steps.
Task CompressedSum::sum_fed_back(Link link, size_t first, Unsent unsent, std::span<float> values) {
  if (velocity_) {
    const double limit = compression_.clip / std::sqrt(double(link.size()));
    if (limit > 0) clip_norm(limit, values);
    correct_momentum(float(compression_.momentum), unsent.velocity, values);
  }
  for (size_t i = 0; i < values.size(); ++i) unsent.error[i] += values[i];
  Occasion occasion = now_;
  occasion.first = first;
  return sum_messages(std::move(link), occasion, unsent, values);
}

Task CompressedSum::sum_messages(Link link, Occasion occasion, Unsent unsent,
                                 std::span<float> sum) const {
  const bool global = compression_.aggregation == Aggregation::GlobalTopK;
  const auto way = compression_.method == CompressionMethod::RandomK ? sum_of_added_messages
                   : !sends_largest(compression_.method)             ? sum_of_shares
                   : global                                          ? sum_of_global_top
                                                                     : sum_of_all_messages;
  return way(std::move(link), *compressor_, occasion, unsent, sum);
}

void correct_momentum(float momentum, std::span<float> velocity, std::span<float> gradient) {
  for (size_t i = 0; i < gradient.size(); ++i) {
    velocity[i] = momentum * velocity[i] + gradient[i];
    gradient[i] = velocity[i];
  }
}

void clip_norm(double most, std::span<float> gradient) {
  double squares = 0;
  for (const float value : gradient) squares += double(value) * double(value);
  const double norm = std::sqrt(squares);
  if (!std::isfinite(norm) || norm <= most) return;
  const auto factor = float(most / norm);
  for (float& value : gradient) value *= factor;
}

}  // namespace dlflow::runtime
