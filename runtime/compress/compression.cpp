#include "runtime/compress/compression.h"

#include <cmath>

#include "runtime/compress/methods.h"

namespace dlflow::runtime {

double density_in_epoch(const Compression& compression, uint64_t epoch) {
  if (epoch >= compression.warmup_epochs) return compression.density;
  return std::pow(compression.density, double(epoch + 1) / double(compression.warmup_epochs + 1));
}

std::unique_ptr<Compressor> make_compressor(CompressionMethod method) {
  switch (method) {
    case CompressionMethod::Float16:
      return make_half(DataType::Float16);
    case CompressionMethod::BFloat16:
      return make_half(DataType::BFloat16);
    case CompressionMethod::Int8:
      return make_int8();
    case CompressionMethod::TopK:
    case CompressionMethod::Dgc:
      return make_top_k();
    case CompressionMethod::MsTopK:
      return make_ms_top_k();
    case CompressionMethod::RandomK:
      return make_random_k();
    case CompressionMethod::PowerSgd:
      return nullptr;
  }
  return nullptr;
}

}  // namespace dlflow::runtime
