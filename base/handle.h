#pragma once

#include <unistd.h>

#include <memory>
#include <utility>

/// RAII for handles of C libraries.
namespace dlflow {

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* handle) const noexcept {
    Free(handle);
  }
};

/// Owns a C handle: `using Statement = Handle<sqlite3_stmt, sqlite3_finalize>;`
template <typename T, auto Free>
using Handle = std::unique_ptr<T, Deleter<Free>>;

/// Owns a file descriptor; -1 is none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    reset(std::exchange(other.descriptor_, -1));
    return *this;
  }
  ~FileDescriptor() { reset(); }

  int get() const noexcept { return descriptor_; }
  explicit operator bool() const noexcept { return descriptor_ >= 0; }
  int release() noexcept { return std::exchange(descriptor_, -1); }
  void reset(int descriptor = -1) noexcept {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = descriptor;
  }

 private:
  int descriptor_ = -1;
};

}  // namespace dlflow
