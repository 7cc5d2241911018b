#pragma once

#include <span>

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

/// The coefficients, neither below 0, with the least sum of squared relative errors: sizes of
/// 1 KiB and of 16 MiB count the same. Zero without samples.
AlphaBeta fit(std::span<const Sample> samples);

/// The share of an ideal speed-up that `ranks` reach, where each computes for T_C and `overhead` is
/// T_O / T_C on one: (1 + R) / (1 + P R). Lemma 1 of arXiv 1709.06622.
double lemma1_efficiency(double overhead, double ranks);

/// The largest number of ranks with at least that efficiency: ((1 + R) / alpha - 1) / R; infinite
/// without overhead. The inverse of the same lemma.
double lemma1_ranks(double overhead, double efficiency);

/// The fewest parameter servers whose traffic hides behind the computation of a step:
/// 2 S N_w / (B_ps T_C), at least 1. Lemma 2 of arXiv 1709.06622. \param server_bandwidth  bytes/s
double lemma2_servers(double parameter_bytes, double workers, double server_bandwidth,
                      double compute_s);

/// The steps that batches of `batch` need, over those that batches of `other` need, for the same
/// loss: S(B) = S_min (1 + B_noise / B), arXiv 1812.06162.
double step_ratio(double batch, double other, double noise_scale);

/// The share of the gradient below which top-k with its indices takes less time than the dense sum:
/// alpha lg P + 2 (P - 1) k beta = dense, for k elements of 4 bytes; 0 if latency alone takes more.
/// The selection comes on top. Cost of all-gather: arXiv 1901.04359.
double sparse_crossover(AlphaBeta link, int ranks, double bytes, double dense_s);

/// Time of top-k by all-gather, by the same formula, for `density` of a gradient of `bytes`.
double sparse_seconds(AlphaBeta link, int ranks, double bytes, double density);

}  // namespace dlflow::planner
