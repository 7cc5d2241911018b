#include "runtime/comm/shared_library.h"

#include "base/error.h"

namespace dlflow::runtime {
namespace {

std::string last_error() {
  const char* text = ::dlerror();
  return text ? text : "unknown error of the loader";
}

}  // namespace

SharedLibrary::SharedLibrary(const std::string& name, int flags)
    : name_(name), handle_(::dlopen(name.c_str(), RTLD_NOW | flags)) {
  if (!handle_) throw Error(Errc::NotFound, last_error());
}

void* SharedLibrary::address(const char* symbol) const {
  void* found = ::dlsym(handle_.get(), symbol);
  if (found == nullptr) throw Error(Errc::NotFound, name_ + " has no " + symbol);
  return found;
}

void SharedLibrary::check_abi(uint32_t found, uint32_t known) const {
  if (found == known) return;
  throw Error(Errc::InvalidInput, name_ + " has interface " + std::to_string(found) +
                                      ", but this program supports " + std::to_string(known) +
                                      "; install both from one build of dlflow");
}

}  // namespace dlflow::runtime
