#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

/// Loops that oneDNN lacks, or has in a slower or less exact form. Plain C++ on vectors of 16
/// floats, compiled for AVX-512, AVX2 and the baseline, and selected at run time.
namespace dlflow::runtime {

/// The numbers of values between layers: fp32, or bf16, which is only stored, never computed in.
struct Numbers {
  void* data = nullptr;
  bool is_bf16 = false;  ///< the same in all arguments of one call

  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

/// How the values of (B,C,H,W) lie in memory: in groups of 16 adjacent channels, the last of which
/// may have fewer. Describes nChw16c (padded to full groups), nhwc, and (B,C) as one pixel.
struct MapGeometry {
  int64_t images = 0;
  int64_t height = 0, width = 0;
  int64_t groups = 0;
  int64_t last_group = 16;   ///< channels of the last group that are in memory
  int64_t image_stride = 0;  ///< in numbers, like the other strides
  int64_t group_stride = 0;
  int64_t pixel_stride = 0;

  int64_t pixels() const { return height * width; }
};

/// y = x, with negatives set to 0. NaN stays.
void relu(Numbers x, Numbers y, size_t count);

/// sum = a + b, or relu(a + b).
void add(Numbers a, Numbers b, bool relu, Numbers sum, size_t count);

/// gradient += more (if given); then set to 0 where y (if given), the result of a ReLU, is 0.
void finish_gradient(Numbers gradient, Numbers more, Numbers y, size_t count);

/// sums = the sums of the columns of (rows, columns), added row by row.
void sum_rows(const float* values, int64_t rows, int64_t columns, float* sums);

/// Batch normalisation's epsilon, as in PyTorch.
constexpr float kBatchNormEpsilon = 1e-5f;

/// Per channel; each array has 16 * groups floats and is 0 for padding channels.
struct BatchNormParameters {
  const float* weight = nullptr;
  const float* bias = nullptr;
};

/// The forward pass of batch normalisation: its inputs and its output per value.
struct BatchNormForward {
  Numbers x;
  Numbers residual = {};  ///< added to the result; null: none
  Numbers y = {};
  bool relu = false;
  bool capped = false;  ///< the ReLU is a ReLU6
};

/// y = weight * (x - mean) / sqrt(variance + epsilon) + bias + residual (if given); then ReLU, if
/// requested. First writes the batch's `mean` and `variance` (biased): single precision within an
/// image, double across images, relative to the first pixel. Single precision over 50,000 values
/// would lose digits that affect training.
void batch_norm_forward(const MapGeometry& geometry, BatchNormForward pass,
                        BatchNormParameters parameters, float* mean, float* variance);

/// Like batch_norm_forward, with the given mean and variance.
void batch_norm_infer(const MapGeometry& geometry, BatchNormForward pass,
                      BatchNormParameters parameters, const float* mean, const float* variance);

/// The backward pass of batch normalisation: its inputs and outputs per value. First adds `more_dy`
/// to `dy` and sets the sum to 0 where y is not above 0, or is capped. The result stays in `dy`: it
/// is the gradient of the residual.
struct BatchNormBackward {
  Numbers x;
  const float *weight, *mean, *variance;
  Numbers y;  ///< of the ReLU; null: no ReLU
  Numbers dy;
  Numbers more_dy;      ///< null: none
  Numbers dx;           ///< may be `dy` if there is no residual
  bool capped = false;  ///< the ReLU is a ReLU6
};

/// The gradients of a normalisation's parameters.
struct NormGradients {
  float *weight, *bias;  ///< bias: null if there is none
};

/// Writes dx and the gradients of weight and bias.
void batch_norm_backward(const MapGeometry& geometry, BatchNormBackward pass,
                         NormGradients gradients);

/// The same in two parts, for statistics over more images than these: in between, the caller adds
/// the sums of all. The arrays have as many doubles as `mean` has floats.

/// The sums of x and of its square.
void batch_norm_sums(const MapGeometry& geometry, Numbers x, double* sums, double* squares);

/// Finishes dy as batch_norm_backward does. Writes these images' contribution to the gradients of
/// weight and bias, and the sums of dy and of dy * (x - mean), but not dx.
void batch_norm_backward_sums(const MapGeometry& geometry, BatchNormBackward pass,
                              NormGradients gradients, double* sums, double* products);

/// dx from the finished dy and those sums over `count` values.
void batch_norm_backward_apply(const MapGeometry& geometry, BatchNormBackward pass,
                               const double* sums, const double* products, int64_t count);

/// True if no number is NaN or infinite.
bool all_finite(Numbers x, size_t count);

struct PoolWindow {
  int64_t kernel = 1, stride = 1, padding = 0;
  int64_t out_height = 0, out_width = 0;
};

struct MaxPooling {
  MapGeometry geometry;  ///< of x; y has the same grouping
  PoolWindow window;
  bool relu = false;  ///< after the maximum
};

/// y = the maximum under each window (then ReLU). `chosen` has its index in the window for each
/// element of y, the first in a tie.
void max_pool_forward(const MaxPooling& pooling, Numbers x, Numbers y, uint16_t* chosen);

/// Computes dx from dy: each gradient goes to the input that `chosen` names.
void max_pool_backward(const MaxPooling& pooling, Numbers dy, const uint16_t* chosen, Numbers dx);

/// Softmax cross-entropy. With smoothing s and K classes, the target is 1 - s + s/K for the label
/// and s/K for the others. The class weights, if given, multiply the log-probability of each class,
/// as in PyTorch.
/// Source: Szegedy et al., CVPR 2016, section 7; torch.nn.CrossEntropyLoss.
struct CrossEntropy {
  size_t classes = 0;
  double smoothing = 0;
  std::span<const float> class_weights = {};
};

struct LossSums {
  double loss = 0;
  int64_t num_correct = 0;
};

/// Loss and number of correct predictions of (B, classes) scores; `probabilities` is
/// softmax(scores).
LossSums softmax_cross_entropy(const CrossEntropy& loss, std::span<const float> scores,
                               std::span<const uint32_t> labels, std::span<float> probabilities);

/// The same with `targets` (B, classes) instead of labels: shares of the classes that sum to 1. The
/// number correct is counted against `labels`.
LossSums soft_cross_entropy(const CrossEntropy& loss, std::span<const float> scores,
                            std::span<const uint32_t> labels, std::span<const float> targets,
                            std::span<float> probabilities);
void soft_cross_entropy_backward(const CrossEntropy& loss, std::span<const float> probabilities,
                                 std::span<const float> targets, float scale,
                                 std::span<float> gradient);

/// Number of labels among the five highest scores of their samples. In a tie the first score ranks
/// higher; a sample with a NaN score does not count.
int64_t num_in_top5(std::span<const float> scores, std::span<const uint32_t> labels);

/// gradient = scale * (probabilities - target).
void softmax_cross_entropy_backward(const CrossEntropy& loss, std::span<const float> probabilities,
                                    std::span<const uint32_t> labels, float scale,
                                    std::span<float> gradient);

/// The parameters of a convolution's forward pass.
struct ConvolutionParameters {
  const float* weight = nullptr;
  const float* bias = nullptr;  ///< null: none
};

}  // namespace dlflow::runtime
