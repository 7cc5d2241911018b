#include <dnnl.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <algorithm>
#include "runtime/nn/winograd_kernel.h"
using namespace dnnl; using namespace dlflow::runtime;
using dt=memory::data_type; using ft=memory::format_tag;
template<class F> double best(F f){ double b=1e9; f(); double total=0; for(int i=0;i<200&&(i<5||total<0.3);++i){auto s=std::chrono::steady_clock::now(); f(); double t=std::chrono::duration<double>(std::chrono::steady_clock::now()-s).count(); b=std::min(b,t); total+=t;} return b*1e3; }
engine e(engine::kind::cpu,0); 
memory mk(const memory::desc&d){ memory m(d,e); std::fill_n((char*)m.get_data_handle(),d.get_size(),0); float*f=(float*)m.get_data_handle(); for(size_t i=0;i<d.get_size()/4;++i) f[i]=float(i%7)*0.1f; return m;}
void dnn(algorithm a,int64_t n,int64_t c,int64_t o,int64_t h,double*out){
  stream s(e); try{
  memory::desc x({n,c,h,h},dt::f32,ft::nChw16c),y({n,o,h,h},dt::f32,ft::nChw16c),w({o,c,3,3},dt::f32,ft::any);
  convolution_forward::desc fd(prop_kind::forward_training,a,x,w,y,{1,1},{1,1},{1,1}); convolution_forward::primitive_desc f(fd,e);
  convolution_backward_data::primitive_desc d({a,x,w,y,{1,1},{1,1},{1,1}},e,f); convolution_backward_weights::primitive_desc b({a,x,w,y,{1,1},{1,1},{1,1}},e,f);
  memory mx=mk(x),my=mk(y),mw=mk(f.weights_desc()),mwd=mk(d.weights_desc()),dw=mk(b.diff_weights_desc());
  convolution_forward F(f); convolution_backward_data D(d); convolution_backward_weights B(b);
  out[0]=best([&]{F.execute(s,{{DNNL_ARG_SRC,mx},{DNNL_ARG_WEIGHTS,mw},{DNNL_ARG_DST,my}});s.wait();});
  out[1]=best([&]{D.execute(s,{{DNNL_ARG_DIFF_DST,my},{DNNL_ARG_WEIGHTS,mwd},{DNNL_ARG_DIFF_SRC,mx}});s.wait();});
  out[2]=best([&]{B.execute(s,{{DNNL_ARG_SRC,mx},{DNNL_ARG_DIFF_DST,my},{DNNL_ARG_DIFF_WEIGHTS,dw}});s.wait();});
  }catch(...){}
}
int main(int argc,char**argv){
#ifdef SMALL
 int64_t sh[][4]={{32,32,32,4},{64,32,32,4},{128,32,32,4},{32,64,64,4},{16,64,64,4},{16,128,128,4},{32,128,128,4},{8,256,256,4},{16,256,256,4},{32,256,256,4},{8,512,512,8},{32,512,512,4},{64,512,512,4},{16,512,512,7},{32,16,16,28},{32,16,32,28},{32,16,16,8},{32,32,32,8}};
#else
 int64_t sh[][4]={{16,64,64,64},{16,64,128,32},{16,128,128,32},{16,128,256,16},{16,256,256,16},{16,256,512,8},{16,512,512,8},{16,512,512,4},{32,64,64,16},{32,128,128,8},{32,256,256,4},{32,64,64,56},{32,128,128,28},{32,256,256,14},{32,512,512,7},{32,32,32,14},{32,64,64,7},{32,32,64,26}};
#endif
 for(auto&q:sh){ int64_t n=q[0],c=q[1],o=q[2],h=q[3]; double d[3]={},w[3]={},k[3];
  dnn(algorithm::convolution_direct,n,c,o,h,d); dnn(algorithm::convolution_winograd,n,c,o,h,w);
  memory mx=mk({{n,c,h,h},dt::f32,ft::nChw16c}),my=mk({{n,o,h,h},dt::f32,ft::nChw16c}),mw=mk({{o,c,3,3},dt::f32,ft::OIhw16i16o}),dw=mk({{o,c,3,3},dt::f32,ft::OIhw16i16o});
  WinogradShape s; auto geo=[&](int64_t ch){MapGeometry g{}; g.images=n; g.groups=ch/16; g.height=h; g.width=h; g.pixel_stride=16; g.group_stride=h*h*16; g.image_stride=h*h*ch; return g;};
  s.x=geo(c); s.y=geo(o); s.padding_height=s.padding_width=1;
  float*X=(float*)mx.get_data_handle(),*Y=(float*)my.get_data_handle(),*W=(float*)mw.get_data_handle(),*D=(float*)dw.get_data_handle();
  k[0]=best([&]{winograd_forward(s,X,W,nullptr,false,Y);}); k[1]=best([&]{winograd_backward_data(s,Y,W,X);}); k[2]=best([&]{winograd_backward_weights(s,X,Y,D,nullptr);});
  double gf=2e-6*n*c*o*h*h*9; auto sum=[](double*p){return p[0]+p[1]+p[2];};
  printf("n%ld %ld->%ld @%ld tiles %ld: direct %.2f %.2f %.2f (%.0f GF/s) | dnnwino %.2f %.2f %.2f | own %.2f %.2f %.2f | own/direct %.2f wino/direct %.2f\n",n,c,o,h,n*((h+3)/4)*((h+3)/4),d[0],d[1],d[2],3*gf/sum(d),w[0],w[1],w[2],k[0],k[1],k[2],sum(k)/sum(d),sum(w)/sum(d)); fflush(stdout);}
}
