#include "runtime/nn/operation.h"

#include <string>

namespace dlflow::runtime {
namespace {

using dnnl::memory;

bool use_blocks() { return dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core; }

memory::dims dims_of(int64_t batch, const Shape& shape) {
  memory::dims dims = {batch};
  dims.insert(dims.end(), shape.begin(), shape.end());
  return dims;
}

}  // namespace

memory::desc map_format(int64_t batch, const Shape& shape) {
  return {dims_of(batch, shape), memory::data_type::f32,
          use_blocks() ? memory::format_tag::nChw16c : memory::format_tag::nhwc};
}

memory::desc plain_format(int64_t batch, const Shape& shape) {
  return {dims_of(batch, shape), memory::data_type::f32,
          shape.size() == 3 ? memory::format_tag::nchw : memory::format_tag::nc};
}

MapGeometry map_geometry(const Value& value, int64_t batch) {
  const memory::dims dims = value.desc().dims();
  const int64_t channels = dims[1];
  MapGeometry g;
  g.images = batch;
  g.height = dims.size() == 4 ? dims[2] : 1;
  g.width = dims.size() == 4 ? dims[3] : 1;
  g.groups = (channels + 15) / 16;
  const bool blocked = dims.size() == 4 && use_blocks();
  g.last_group = blocked ? 16 : channels - (g.groups - 1) * 16;
  g.pixel_stride = blocked ? 16 : channels;
  g.group_stride = blocked ? g.pixels() * 16 : 16;
  g.image_stride = g.pixels() * (blocked ? g.groups * 16 : channels);
  return g;
}

void require_optimised(const char* implementation, const Layer& layer) {
  const std::string text = implementation;
  if (text.find("ref") == std::string::npos) return;
  throw Error(Errc::InvalidInput, "layer '" + layer.name + "' (line " + std::to_string(layer.line) +
                                      "): oneDNN has only its reference code (" + text + ") for " +
                                      name(layer.kind) + " of this size on this CPU, which is a " +
                                      "hundred times slower; choose other sizes");
}

memory::desc Builder::factor(const memory::desc& value) const {
  if (compute == Compute::Float32) return value;
  return {value.dims(), memory::data_type::bf16, memory::format_tag::any};
}

Factor::Factor(const Builder& builder, const dnnl::memory& value, const memory::desc& wanted)
    : value_(value) {
  builder.read(value);
  if (wanted == value.get_desc()) return;
  copy_ = builder.make(wanted);
  convert_ = dnnl::reorder(value_, copy_);
}

void Factor::refresh(dnnl::stream& stream) {
  if (copy_) convert_.execute(stream, value_, copy_);
}

GradientSum::GradientSum(const Builder& builder, const Value& result, bool relu)
    : sum_(result.gradients.at(0)),
      more_(result.gradients.begin() + 1, result.gradients.end()),
      num_floats_(result.num_floats()) {
  if (relu) mask_ = result.data;
  for (const memory& gradient : result.gradients) builder.read(gradient);
  if (relu) builder.read(result.data);
}

void GradientSum::run() const {
  if (more_.empty() && !mask_) return;
  const auto floats = [](const memory& m) {
    return m ? static_cast<float*>(m.get_data_handle()) : nullptr;
  };
  for (size_t i = 0; i + 1 < more_.size(); ++i) {
    finish_gradient(floats(sum_), floats(more_[i]), nullptr, num_floats_);
  }
  finish_gradient(floats(sum_), more_.empty() ? nullptr : floats(more_.back()), floats(mask_),
                  num_floats_);
}

}  // namespace dlflow::runtime
