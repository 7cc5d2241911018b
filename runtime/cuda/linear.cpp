#include "runtime/cuda/kernels.h"
#include "runtime/cuda/operation.h"

namespace dlflow::cuda {
namespace {

constexpr size_t kWorkspace = size_t(32) << 20;  // cuBLAS's recommendation for Hopper
constexpr uint32_t kAlignment = 16;              // of all slots and row blocks passed to it

using MatrixLayout = Descriptor<cublasLtMatrixLayout_t,
                                +[](cublasLtMatrixLayout_t* layout) {
                                  return cublasLtMatrixLayoutCreate(layout, CUDA_R_32F, 1, 1, 1);
                                },
                                cublasLtMatrixLayoutDestroy>;
/// Computes in fp32, without TF32 unless requested.
using ProductDescriptor =
    Descriptor<cublasLtMatmulDesc_t,
               +[](cublasLtMatmulDesc_t* product) {
                 return cublasLtMatmulDescCreate(product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
               },
               cublasLtMatmulDescDestroy>;
using Preference = Descriptor<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceCreate,
                              cublasLtMatmulPreferenceDestroy>;

/// A column-major matrix of floats, as in cuBLAS: the transpose of a plain (rows, columns) one.
struct Matrix {
  int64_t rows = 0, columns = 0;
};

template <typename T>
void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, T value) {
  check(cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof(value)),
        "cublasLtMatrixLayoutSetAttribute");
}
template <typename T>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, T value) {
  check(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
}
template <typename T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         T value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
}

/// D = op(A) op(B) + beta D, where op may be a transpose; then bias and ReLU.
class Product {
 public:
  struct Options {
    bool transpose_a = false, transpose_b = false;
    const float* bias = nullptr;  ///< one number per row of D
    bool relu = false;
    bool tensor_float32 = false;
  };

  Product(const Tools& tools, Matrix a, Matrix b, Matrix d, const Options& options)
      : tools_(tools) {
    tools_.workspace->reserve(kWorkspace);
    shape(a_, a);
    shape(b_, b);
    shape(d_, d);
    set(product_.get(), CUBLASLT_MATMUL_DESC_TRANSA, operation(options.transpose_a));
    set(product_.get(), CUBLASLT_MATMUL_DESC_TRANSB, operation(options.transpose_b));
    set(product_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue(options));
    if (options.tensor_float32) {
      set(product_.get(), CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, CUBLAS_COMPUTE_32F_FAST_TF32);
    }
    if (options.bias) set(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, options.bias);
    choose();
  }

  void run(const float* a, const float* b, float beta, float* d) const {
    const float one = 1;
    check(cublasLtMatmul(tools_.blas, product_.get(), &one, a, a_.get(), b, b_.get(), &beta, d,
                         d_.get(), d, d_.get(), &algorithm_, tools_.workspace->data(), kWorkspace,
                         tools_.stream),
          "cublasLtMatmul");
  }

 private:
  static cublasOperation_t operation(bool transpose) {
    return transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
  }

  static cublasLtEpilogue_t epilogue(const Options& options) {
    if (options.bias) return options.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
    return options.relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
  }

  static void shape(const MatrixLayout& layout, Matrix matrix) {
    set(layout.get(), CUBLASLT_MATRIX_LAYOUT_ROWS, uint64_t(matrix.rows));
    set(layout.get(), CUBLASLT_MATRIX_LAYOUT_COLS, uint64_t(matrix.columns));
    set(layout.get(), CUBLASLT_MATRIX_LAYOUT_LD, matrix.rows);
  }

  /// Takes cuBLAS's first proposal. Split sums are combined in a separate pass, in a fixed order.
  void choose() {
    Preference preference;
    set(preference.get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t(kWorkspace));
    set(preference.get(), CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      set(preference.get(), attribute, kAlignment);
    }
    cublasLtMatmulHeuristicResult_t found = {};
    int count = 0;
    check(cublasLtMatmulAlgoGetHeuristic(tools_.blas, product_.get(), a_.get(), b_.get(), d_.get(),
                                         d_.get(), preference.get(), 1, &found, &count),
          "cublasLtMatmulAlgoGetHeuristic");
    if (count == 0) throw std::runtime_error("cuBLASLt has no algorithm for a linear layer");
    algorithm_ = found.algo;
  }

  Tools tools_;
  MatrixLayout a_, b_, d_;
  ProductDescriptor product_;
  cublasLtMatmulAlgo_t algorithm_ = {};
};

/// y (batch, outputs) = x (batch, inputs) times the transpose of weight (outputs, inputs), + bias.
/// In column-major order, each matrix is its transpose.
class Linear : public Operation {
 public:
  explicit Linear(const OperationSetup& setup)
      : p_(setup),
        x_{setup.input.features(), setup.batch},
        w_{setup.input.features(), setup.output.features()},
        y_{setup.output.features(), setup.batch},
        forward_(setup.tools, w_, x_, y_,
                 {.transpose_a = true,
                  .bias = setup.parameters.bias,
                  .relu = setup.description.relu != 0,
                  .tensor_float32 = setup.tensor_float32}),
        weight_gradient_(setup.tools, x_, y_, w_,
                         {.transpose_b = true, .tensor_float32 = setup.tensor_float32}),
        input_gradient_(setup.tools, w_, y_, x_, {.tensor_float32 = setup.tensor_float32}) {}

  void forward(bool /*training*/) override {
    forward_.run(p_.parameters.weight, p_.input.data.data(), 0, p_.output.data.data());
  }

  void backward() override {
    float* const dy = p_.output.gradient.data();
    if (p_.gradients.bias != nullptr) {
      bias_gradient({p_.batch, p_.output.features(), 1}, dy, p_.cut_off(), p_.gradients.bias,
                    {p_.tools.stream});
    } else if (p_.cut_off() != nullptr) {
      mask_gradient(dy, p_.cut_off(), p_.num_outputs(), p_.tools.stream);
    }
    weight_gradient_.run(p_.input.data.data(), dy, 0, p_.gradients.weight);
    if (!p_.has_input_gradient()) return;
    input_gradient_.run(p_.parameters.weight, dy, p_.adds_input_gradient() ? 1 : 0,
                        p_.input.gradient.data());
  }

 private:
  const OperationSetup p_;
  Matrix x_, w_, y_;
  Product forward_, weight_gradient_, input_gradient_;
};

}  // namespace

std::unique_ptr<Operation> make_linear(const OperationSetup& setup) {
  return std::make_unique<Linear>(setup);
}

}  // namespace dlflow::cuda
