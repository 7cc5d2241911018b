#include "runtime/compress/compression.h"

#include <cmath>

#include "runtime/compress/half.h"
#include "runtime/compress/int8.h"
#include "runtime/compress/ms_top_k.h"
#include "runtime/compress/random_k.h"
#include "runtime/compress/top_k.h"

namespace dlflow::runtime {

double density_in_epoch(const Compression& compression, uint64_t epoch) {
  if (epoch >= compression.warmup_epochs) return compression.density;
  return std::pow(compression.density, double(epoch + 1) / double(compression.warmup_epochs + 1));
}

std::unique_ptr<Compressor> make_compressor(CompressionMethod method) {
  switch (method) {
    case CompressionMethod::Float16:
      return std::make_unique<Half>(DataType::Float16);
    case CompressionMethod::BFloat16:
      return std::make_unique<Half>(DataType::BFloat16);
    case CompressionMethod::Int8:
      return std::make_unique<Int8>();
    case CompressionMethod::TopK:
    case CompressionMethod::Dgc:
      return std::make_unique<TopK>();
    case CompressionMethod::MsTopK:
      return std::make_unique<MsTopK>();
    case CompressionMethod::RandomK:
      return std::make_unique<RandomK>();
    case CompressionMethod::PowerSgd:
      return nullptr;
  }
  return nullptr;
}

}  // namespace dlflow::runtime
