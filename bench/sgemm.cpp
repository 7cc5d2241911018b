// GFLOP/s of oneDNN's product of fp32 matrices on one thread (OMP_NUM_THREADS=1), for comparison
// with a peer's BLAS (bench/torch_sgemm.py). The best of many tries counts, so that other work on
// the machine does not matter.
#include <dnnl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <vector>

int main() {
  constexpr int kSize = 512, kTries = 100;
  const std::vector<float> a(kSize * kSize, 0.25f), b(kSize * kSize, 0.5f);
  std::vector<float> c(kSize * kSize);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTries; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (dnnl_sgemm('N', 'N', kSize, kSize, kSize, 1, a.data(), kSize, b.data(), kSize, 0, c.data(),
                   kSize) != dnnl_success) {
      std::fprintf(stderr, "error: oneDNN's sgemm failed\n");
      return 1;
    }
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::printf("{\"gflops\": %.1f}\n", 2.0 * kSize * kSize * kSize / best / 1e9);
  return 0;
}
