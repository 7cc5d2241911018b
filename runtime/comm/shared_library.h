#pragma once

#include <dlfcn.h>

#include <string>

#include "base/handle.h"

namespace dlflow::runtime {

/// A library that is opened at run time and stays open as long as this.
class SharedLibrary {
 public:
  /// \param flags  of dlopen(), besides RTLD_NOW
  /// Throws Error{NotFound} with the loader's words: "libnccl.so.2: cannot open shared object
  /// file".
  explicit SharedLibrary(const std::string& name, int flags = RTLD_LOCAL);

  /// The address of `symbol`, a function of type `Function*`.
  /// Throws Error{NotFound} naming the symbol and the library.
  template <typename Function>
  void find(const char* symbol, Function*& function) const {
    function = reinterpret_cast<Function*>(address(symbol));
  }

 private:
  void* address(const char* symbol) const;

  std::string name_;
  Handle<void, ::dlclose> handle_;
};

}  // namespace dlflow::runtime
