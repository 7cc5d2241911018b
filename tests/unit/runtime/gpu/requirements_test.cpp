#include "runtime/cuda/requirements.h"

#include <vector>

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

#ifdef DLFLOW_CUDA_PLUGIN
#include "runtime/cuda/algorithm_choice.h"
#endif

using namespace dlflow;
using Catch::Contains;

TEST_CASE("a driver older than the plug-in's CUDA is named with both versions") {
  CHECK_NOTHROW(cuda::require_driver(13000, 13000));
  CHECK_NOTHROW(cuda::require_driver(13000, 13020));  // newer, with the same major version
  CHECK_NOTHROW(cuda::require_driver(13000, 12080));
  CHECK_THROWS_WITH(cuda::require_driver(12080, 13000),
                    Contains("the NVIDIA driver here is for CUDA 12.8") &&
                        Contains("built with CUDA 13.0") && Contains("driver 580 or later") &&
                        Contains("update the driver, or build dlflow with CUDA 12"));
  CHECK_THROWS_WITH(cuda::require_driver(13020, 14010),
                    Contains("needs a driver for CUDA 14; update the driver"));
  CHECK_THROWS_WITH(cuda::require_driver(0, 13000), Contains("there is no NVIDIA driver here"));
}

TEST_CASE("a part of cuDNN that cannot be opened is named, with the reason") {
  const test::TempDir folder;
  folder.write("libcudnn_ops.so.9", "half a library");
  const auto require = [&](const std::string& name) {
    const std::vector<std::string> names = {"libdl.so.2", name};  // the loader finds the first
    cuda::require_libraries(folder.path(), names);
  };
  CHECK_NOTHROW(require("libm.so.6"));
  CHECK_THROWS_WITH(require("libcudnn_ops.so.9"),
                    Contains("libcudnn_ops.so.9, a part of cuDNN, cannot be opened") &&
                        Contains((folder.path() / "libcudnn_ops.so.9").string() + ":") &&
                        Contains("install all of cuDNN"));
  CHECK_THROWS_WITH(require("libcudnn_of_nowhere.so.9"),
                    Contains("libcudnn_of_nowhere.so.9, a part of cuDNN") &&
                        Contains("cannot open shared object file"));
}

#ifdef DLFLOW_CUDA_PLUGIN
TEST_CASE("all parts of the plug-in's cuDNN are found") {
  CHECK_NOTHROW(cuda::require_libraries(DLFLOW_CUDNN, cuda::cudnn_parts(CUDNN_MAJOR)));
}

TEST_CASE("the first deterministic fp32 algorithm is chosen, otherwise the fallback") {
  using Found = cudnnConvolutionBwdFilterAlgoPerf_t;
  const auto fallback = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
  const auto found = [](cudnnConvolutionBwdFilterAlgo_t algorithm) {
    Found result = {};
    result.algo = algorithm;
    result.status = CUDNN_STATUS_SUCCESS;
    result.determinism = CUDNN_DETERMINISTIC;
    result.mathType = CUDNN_FMA_MATH;
    return result;
  };
  std::vector<Found> all(5, found(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3));
  all[0].determinism = CUDNN_NON_DETERMINISTIC;
  all[1].status = CUDNN_STATUS_NOT_SUPPORTED;
  all[2].mathType = CUDNN_TENSOR_OP_MATH;
  all[3].memory = 1001;
  all[4].mathType = CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
  cuda::Rules rules{.most_workspace = 1000};
  const auto choose = [&] {
    return cuda::choose_algorithm(std::span<const Found>(all), fallback, rules);
  };
  CHECK(choose() == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1);
  rules.tensor_cores = true;
  CHECK(choose() == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3);
  rules.tensor_cores = false;
  all.push_back(found(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT));
  all.push_back(found(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3));
  CHECK(choose() == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT);
  all.clear();
  CHECK(choose() == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1);
}
#endif
