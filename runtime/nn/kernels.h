#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

/// The loops that oneDNN has not, or has slower or less exact. Plain C++ on vectors of 16 floats,
/// compiled for AVX-512, AVX2 and the rest; the CPU at hand decides which runs.
namespace dlflow::runtime {

/// The numbers of values between layers: fp32, or bf16, which is rounded to and never computed in.
struct Numbers {
  void* data = nullptr;
  bool halves = false;  ///< bf16; the same in all arguments of one call

  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

/// Where the values of (B,C,H,W) lie: as groups of 16 neighbouring channels, the last of which may
/// have fewer. Describes nChw16c (its padding is a full group), nhwc, and (B,C) as one pixel.
struct MapGeometry {
  int64_t images = 0;
  int64_t height = 0, width = 0;
  int64_t groups = 0;
  int64_t last_group = 16;   ///< channels of the last group that are in memory
  int64_t image_stride = 0;  ///< in numbers, as the others
  int64_t group_stride = 0;
  int64_t pixel_stride = 0;

  int64_t pixels() const { return height * width; }
};

/// y = x; negatives become 0. NaN stays.
void relu(Numbers x, Numbers y, size_t count);

/// sum = a + b, or relu(a + b).
void add(Numbers a, Numbers b, bool relu, Numbers sum, size_t count);

/// gradient += more (if given); then 0 where y, the result of a ReLU, is 0 (if given).
void finish_gradient(Numbers gradient, Numbers more, Numbers y, size_t count);

/// sums = the sums of the `columns` columns of (rows, columns), row after row.
void sum_rows(const float* values, int64_t rows, int64_t columns, float* sums);

/// Batch normalisation's constant under the root, as in PyTorch.
constexpr float kBatchNormEpsilon = 1e-5f;

/// Per channel; each array has 16 * groups floats, and is 0 for channels that are not there.
struct BatchNormParameters {
  const float* weight = nullptr;
  const float* bias = nullptr;
};

/// The result of batch normalisation, and what is done to it before it is written.
struct BatchNormOutput {
  Numbers residual;  ///< is added; null: none
  bool relu = false;
  Numbers y;
  bool capped = false;  ///< the ReLU is a ReLU6
};

/// y = weight * (x - mean) / sqrt(variance + epsilon) + bias + residual (if given); then ReLU, if
/// asked for. `mean` and `variance` (biased) of the batch are written first: single precision
/// within an image, double over images, around the first pixel, since 50,000 values in single
/// precision lose digits that training notices.
void batch_norm_forward(const MapGeometry& geometry, Numbers x, BatchNormParameters parameters,
                        BatchNormOutput output, float* mean, float* variance);

/// As batch_norm_forward, with mean and variance as they are given.
void batch_norm_infer(const MapGeometry& geometry, Numbers x, BatchNormParameters parameters,
                      BatchNormOutput output, const float* mean, const float* variance);

/// The backward pass of batch normalisation: what it reads and writes per value. `dy` is added to
/// `more_dy` and set to 0 where y is not above 0, or is capped, first; the result is left in `dy`:
/// the gradient of the residual.
struct BatchNormBackward {
  Numbers x;
  const float *weight, *mean, *variance;
  Numbers y;  ///< of the ReLU; null: there is none
  Numbers dy;
  Numbers more_dy;      ///< null: there is none
  Numbers dx;           ///< may be `dy`, if there is no residual
  bool capped = false;  ///< the ReLU is a ReLU6
};

struct BatchNormGradients {
  float *weight, *bias;
};

/// dx, and the gradients of weight and bias.
void batch_norm_backward(const MapGeometry& geometry, BatchNormBackward pass,
                         BatchNormGradients gradients);

/// The same in two parts, for statistics of more images than these: between them, the caller adds
/// the sums of all. Doubles, as many as `mean` has floats.

/// Of x and of its square.
void batch_norm_sums(const MapGeometry& geometry, Numbers x, double* sums, double* squares);

/// Finishes dy as batch_norm_backward does; writes what these images add to the gradients of weight
/// and bias, and the sums of dy and of dy * (x - mean). Not dx.
void batch_norm_backward_sums(const MapGeometry& geometry, BatchNormBackward pass,
                              BatchNormGradients gradients, double* sums, double* products);

/// dx from the finished dy and those sums over `count` values.
void batch_norm_backward_apply(const MapGeometry& geometry, BatchNormBackward pass,
                               const double* sums, const double* products, int64_t count);

/// Whether none is NaN or infinite.
bool all_finite(Numbers x, size_t count);

struct PoolWindow {
  int64_t kernel = 1, stride = 1, padding = 0;
  int64_t out_height = 0, out_width = 0;
};

/// y = the largest under each window (then ReLU), and which one it was: `chosen` has one number per
/// element of y; the first of equals. The geometry is that of x; y has the same grouping.
void max_pool_forward(const MapGeometry& geometry, const PoolWindow& window, bool relu, Numbers x,
                      Numbers y, uint16_t* chosen);

/// dx from dy: each goes where `chosen` says.
void max_pool_backward(const MapGeometry& geometry, const PoolWindow& window, Numbers dy,
                       const uint16_t* chosen, Numbers dx);

/// Loss and hits of (B, classes) scores against labels; `probabilities` is softmax(scores). With
/// smoothing s, the target of K classes is 1 - s + s/K for the label and s/K for the others.
/// `class_weights`, if given, are factors of the logarithm of each class's probability, as in
/// PyTorch.
/// Source: Szegedy et al., CVPR 2016, section 7; torch.nn.CrossEntropyLoss.
struct LossSums {
  double loss = 0;
  int64_t num_correct = 0;
};
LossSums softmax_cross_entropy(std::span<const float> scores, std::span<const uint32_t> labels,
                               double smoothing, std::span<float> probabilities,
                               std::span<const float> class_weights = {});

/// The same with `targets` (B, classes) instead of a label: shares of the classes, of sum 1. Hits
/// are of `labels`.
LossSums soft_cross_entropy(std::span<const float> scores, std::span<const uint32_t> labels,
                            std::span<const float> targets, double smoothing,
                            std::span<float> probabilities, std::span<const float> class_weights);
void soft_cross_entropy_backward(std::span<const float> probabilities,
                                 std::span<const float> targets, int64_t classes, double smoothing,
                                 float scale, std::span<float> gradient,
                                 std::span<const float> class_weights);

/// Labels among the five highest scores of their samples. Of equal scores the first is the higher;
/// a sample with a score that is NaN has none.
int64_t num_in_top5(std::span<const float> scores, std::span<const uint32_t> labels);

/// gradient = scale * (probabilities - target).
void softmax_cross_entropy_backward(std::span<const float> probabilities,
                                    std::span<const uint32_t> labels, double smoothing, float scale,
                                    std::span<float> gradient,
                                    std::span<const float> class_weights = {});

}  // namespace dlflow::runtime
