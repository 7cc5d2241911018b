#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "base/handle.h"

namespace dlflow::runtime {

/// A library that is opened at run time and stays open for the lifetime of this object.
class SharedLibrary {
 public:
  /// \param flags  for dlopen(), besides RTLD_NOW
  /// Throws Error{NotFound} with the loader's message: "libnccl.so.2: cannot open shared object
  /// file".
  explicit SharedLibrary(const std::string& name, int flags = RTLD_LOCAL);

  /// The address of `symbol`, a function of type `Function*`.
  /// Throws Error{NotFound} naming the symbol and the library.
  template <typename Function>
  void find(const char* symbol, Function*& function) const {
    function = reinterpret_cast<Function*>(address(symbol));
  }

  /// The table of functions, of type `Plugin`, that `symbol` of one of our plug-ins returns. Throws
  /// Error{InvalidInput} if its interface is not version `abi`.
  template <typename Plugin>
  auto functions(const char* symbol, uint32_t abi) const {
    std::remove_pointer_t<Plugin>* plugin = nullptr;
    find(symbol, plugin);
    const auto* functions = plugin();
    check_abi(functions->abi, abi);
    return functions;
  }

 private:
  void* address(const char* symbol) const;
  void check_abi(uint32_t found, uint32_t known) const;

  std::string name_;
  Handle<void, ::dlclose> handle_;
};

}  // namespace dlflow::runtime
