#pragma once

#include <cstddef>
#include <span>
#include <vector>

/// The formulas of the planner, each with its source. Letters: P ranks, B samples of a step.
namespace dlflow::planner {

/// One measurement of t = alpha * a + beta * b.
struct Sample {
  double a = 0, b = 0;
  double seconds = 0;
};

/// The costs of a message (s) and of a byte (s/byte), or the two coefficients of a line.
struct AlphaBeta {
  double alpha = 0, beta = 0;
};

/// The coefficients, neither below 0, with the least sum of squared relative errors, so that sizes
/// of 1 KiB and of 16 MiB have the same weight. Zero without samples.
AlphaBeta fit(std::span<const Sample> samples);

/// The largest number of ranks with at least `efficiency` (1 + R) / (1 + P R), R = `overhead` =
/// T_O / T_C on one rank: ((1 + R) / efficiency - 1) / R; infinite without overhead. Lemma 1 of
/// arXiv 1709.06622.
double lemma1_ranks(double overhead, double efficiency);

/// The fewest parameter servers whose traffic hides behind the computation of a step:
/// 2 S N_w / (B_ps T_C), at least 1. Lemma 2 of arXiv 1709.06622. \param server_bandwidth  bytes/s
double lemma2_servers(double parameter_bytes, double workers, double server_bandwidth,
                      double compute_s);

/// The steps to a loss with batches of `batch`, over those with batches of `other`:
/// S(B) = S_min (1 + B_noise / B), arXiv 1812.06162.
double step_ratio(double batch, double other, double noise_scale);

/// Seconds of an all-gather, in which every rank gets the messages of all:
/// alpha lg P + (P - 1) beta message_bytes. Top-k sends 8 bytes for each number. arXiv 1901.04359.
double all_gather_seconds(AlphaBeta link, int ranks, double message_bytes);

/// The share of the gradient below which top-k with its indices takes less time than the dense sum,
/// by all_gather_seconds() and without selection; 0 if the latency alone takes longer.
double sparse_crossover(AlphaBeta link, int ranks, double bytes, double dense_s);

/// The mean wait of a message between two ranks that may compute for `share` of each period. They
/// poll, so that each pauses for the rest of it: the message meets the longer of two pauses D,
/// which are met with probability 1 - share each: D/2 if one is, 2 D/3 if both are.
double pause_seconds(double share, double period_s);

/// An all-reduce of a step. Times from the start of the step.
struct Bucket {
  double ready_s = 0;  ///< its gradients are computed
  double seconds = 0;  ///< that it takes alone
  size_t urgency = 0;  ///< smaller is sent first, and interrupts others
};

/// The times at which the buckets are summed if one at a time is under way, e = max(ready, previous
/// e) + cost: always the most urgent of those that are ready. arXiv 1905.03960.
std::vector<double> replay(const std::vector<Bucket>& buckets);

/// The end of a chain of layers that starts at `start_s`: the next forward pass, in which layer l
/// begins after the layers before it and not before `free_s[l]`, the end of its sum.
double chain_end(double start_s, const std::vector<double>& layer_s,
                 const std::vector<double>& free_s);

}  // namespace dlflow::planner
