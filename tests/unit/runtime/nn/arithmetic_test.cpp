#include "runtime/nn/arithmetic.h"

#include <omp.h>

#include <dnnl.hpp>

#include "tests/support/catch.h"

using namespace dlflow::runtime;

TEST_CASE("the arithmetic has a name, and different arithmetic has different names",
          "[arithmetic]") {
  const std::string usual = arithmetic(Compute::Float32);
  CHECK_THAT(usual, Catch::Matches("dlflow .+ \\(.+\\), oneDNN [23]\\..+, .+, \\d+ threads?"));
  CHECK_THAT(arithmetic(Compute::BFloat16), Catch::Contains(", bf16, "));

  const int threads = omp_get_max_threads();
  omp_set_num_threads(threads + 1);
  CHECK(arithmetic(Compute::Float32) != usual);
  omp_set_num_threads(threads);
  CHECK(arithmetic(Compute::Float32) == usual);
}

TEST_CASE("oneDNN's rounding of factors changes the name of the arithmetic", "[arithmetic]") {
  const std::string usual = arithmetic(Compute::Float32);
  dnnl_set_default_fpmath_mode(dnnl_fpmath_mode_bf16);
  const std::string rough = arithmetic(Compute::Float32);
  dnnl_set_default_fpmath_mode(dnnl_fpmath_mode_strict);
  CHECK(rough != usual);
  CHECK_THAT(rough, Catch::Contains("factors rounded to bf16"));
}
