#pragma once

#include <dnnl.hpp>

namespace dlflow::runtime {

// Hides the differences between oneDNN 2 and 3.

/// How numbers lie in memory. Only kind dnnl_blocked has strides and blocks.
struct MemoryFormat {
  int kind;
  dnnl::memory::dims padded, strides;                // of each dimension
  dnnl::memory::dims block_sizes, block_dimensions;  // of the inner blocks, outermost first
};

#if DNNL_VERSION_MAJOR == 2

inline dnnl::memory::dims dimensions(const dnnl::memory::desc& desc) { return desc.dims(); }
inline dnnl::memory::data_type type_of(const dnnl::memory::desc& desc) { return desc.data_type(); }

inline MemoryFormat format_of(const dnnl::memory::desc& desc) {
  const auto list = [](const auto& values, int count) {
    return dnnl::memory::dims(values, values + count);
  };
  const dnnl_memory_desc_t& data = desc.data;
  const dnnl_blocking_desc_t& blocks = data.format_desc.blocking;
  const dnnl::memory::dims padded = list(data.padded_dims, data.ndims);
  if (data.format_kind != dnnl_blocked) return {data.format_kind, padded, {}, {}, {}};
  return {data.format_kind, padded, list(blocks.strides, data.ndims),
          list(blocks.inner_blks, blocks.inner_nblks), list(blocks.inner_idxs, blocks.inner_nblks)};
}

#else

inline dnnl::memory::dims dimensions(const dnnl::memory::desc& desc) { return desc.get_dims(); }
inline dnnl::memory::data_type type_of(const dnnl::memory::desc& desc) {
  return desc.get_data_type();
}

inline MemoryFormat format_of(const dnnl::memory::desc& desc) {
  const int kind = int(desc.get_format_kind());
  if (kind != dnnl_blocked) return {kind, desc.get_padded_dims(), {}, {}, {}};
  return {kind, desc.get_padded_dims(), desc.get_strides(), desc.get_inner_blks(),
          desc.get_inner_idxs()};
}

#endif

/// The descriptor of a forward pass, or of a primitive without passes. Version 2 needs an operation
/// descriptor made of the `arguments`.
template <typename Primitive, typename... Arguments>
typename Primitive::primitive_desc forward_primitive(const dnnl::engine& engine,
                                                     const dnnl::primitive_attr& attributes,
                                                     const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR == 2
  return {typename Primitive::desc(arguments...), attributes, engine};
#else
  return {engine, arguments..., attributes};
#endif
}

/// The same for the backward pass of `forward`.
template <typename Primitive, typename Forward, typename... Arguments>
typename Primitive::primitive_desc backward_primitive(const dnnl::engine& engine,
                                                      const Forward& forward,
                                                      const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR == 2
  return {typename Primitive::desc(arguments...), engine, forward};
#else
  return {engine, arguments..., forward};
#endif
}

/// Pooling over maps, without dilation.
struct Pooling {
  dnnl::algorithm how;
  dnnl::memory::desc from, to;
  dnnl::memory::dims stride, kernel, padding;
};

inline dnnl::pooling_forward::primitive_desc pooling(const dnnl::engine& engine, const Pooling& p) {
  const auto kind = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR == 2
  return forward_primitive<dnnl::pooling_forward>(engine, {}, kind, p.how, p.from, p.to, p.stride,
                                                  p.kernel, p.padding, p.padding);
#else
  const dnnl::memory::dims gaps(p.kernel.size(), 0);
  return forward_primitive<dnnl::pooling_forward>(engine, {}, kind, p.how, p.from, p.to, p.stride,
                                                  p.kernel, gaps, p.padding, p.padding);
#endif
}

inline dnnl::pooling_backward::primitive_desc pooling_back(
    const dnnl::engine& engine, const dnnl::pooling_forward::primitive_desc& forward,
    const Pooling& p) {
#if DNNL_VERSION_MAJOR == 2
  return backward_primitive<dnnl::pooling_backward>(engine, forward, p.how, p.from, p.to, p.stride,
                                                    p.kernel, p.padding, p.padding);
#else
  const dnnl::memory::dims gaps(p.kernel.size(), 0);
  return backward_primitive<dnnl::pooling_backward>(engine, forward, p.how, p.from, p.to, p.stride,
                                                    p.kernel, gaps, p.padding, p.padding);
#endif
}

/// An elementwise function.
struct ElementwiseFunction {
  dnnl::algorithm what;
  float alpha = 0, beta = 0;  ///< as oneDNN defines them for it
};

/// The function from a memory of `desc` to another of `desc`.
inline dnnl::eltwise_forward::primitive_desc elementwise(const dnnl::engine& engine,
                                                         const ElementwiseFunction& f,
                                                         const dnnl::memory::desc& desc) {
  const auto kind = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR == 2
  return forward_primitive<dnnl::eltwise_forward>(engine, {}, kind, f.what, desc, f.alpha, f.beta);
#else
  return forward_primitive<dnnl::eltwise_forward>(engine, {}, kind, f.what, desc, desc, f.alpha,
                                                  f.beta);
#endif
}

inline dnnl::eltwise_backward::primitive_desc elementwise_back(
    const dnnl::engine& engine, const dnnl::eltwise_forward::primitive_desc& forward,
    const ElementwiseFunction& f, const dnnl::memory::desc& gradient,
    const dnnl::memory::desc& desc) {
#if DNNL_VERSION_MAJOR == 2
  return backward_primitive<dnnl::eltwise_backward>(engine, forward, f.what, gradient, desc,
                                                    f.alpha, f.beta);
#else
  return backward_primitive<dnnl::eltwise_backward>(engine, forward, f.what, gradient, gradient,
                                                    desc, f.alpha, f.beta);
#endif
}

inline void append_relu(dnnl::post_ops& then) {
#if DNNL_VERSION_MAJOR == 2
  then.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
#else
  then.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
#endif
}

}  // namespace dlflow::runtime
