#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

/// Switches of the mutants in a source that tests/mutation/mutants.py has rewritten.
///
/// DLFLOW_MUTANTS is the path of a file that all processes of a test share: the number of the
/// mutant that is on (4 bytes, 0: none), then one byte per mutant, set once a process has reached
/// it. A file, no variable: programs that dlflow starts get an environment of their own.
namespace mutation {

/// The shared file; null if it cannot be opened, as in a container: no mutant is on there.
inline unsigned char* shared_file() {
  static unsigned char* const file = []() -> unsigned char* {
    const int descriptor = ::open(DLFLOW_MUTANTS, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return nullptr;
    struct stat status {};
    void* memory = MAP_FAILED;
    if (::fstat(descriptor, &status) == 0) {
      memory = ::mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ | PROT_WRITE,
                      MAP_SHARED, descriptor, 0);
    }
    ::close(descriptor);
    return memory == MAP_FAILED ? nullptr : static_cast<unsigned char*>(memory);
  }();
  return file;
}

/// Whether this mutant is on. Records that it was reached.
inline bool on(uint32_t number) {
  unsigned char* file = shared_file();
  if (file == nullptr) return false;
  file[sizeof(number) + number] = 1;
  uint32_t active;
  std::memcpy(&active, file, sizeof(active));
  return active == number;
}

// Operators with a mutant: the operands are evaluated once, whichever is on.

template <class A, class B>
bool less(uint32_t number, A&& a, B&& b) {
  return on(number) ? a <= b : a < b;
}

template <class A, class B>
bool less_equal(uint32_t number, A&& a, B&& b) {
  return on(number) ? a < b : a <= b;
}

template <class A, class B>
bool greater(uint32_t number, A&& a, B&& b) {
  return on(number) ? a >= b : a > b;
}

template <class A, class B>
bool greater_equal(uint32_t number, A&& a, B&& b) {
  return on(number) ? a > b : a >= b;
}

template <class A, class B>
auto plus(uint32_t number, A&& a, B&& b) {
  return on(number) ? a - b : a + b;
}

template <class A, class B>
auto minus(uint32_t number, A&& a, B&& b) {
  return on(number) ? a + b : a - b;
}

template <class A, class B>
auto times(uint32_t number, A&& a, B&& b) {
  return on(number) ? a / b : a * b;
}

template <class A, class B>
auto divided(uint32_t number, A&& a, B&& b) {
  return on(number) ? a * b : a / b;
}

template <class A, class B>
A& add(uint32_t number, A& a, B&& b) {
  return on(number) ? a -= b : a += b;
}

template <class A, class B>
A& subtract(uint32_t number, A& a, B&& b) {
  return on(number) ? a += b : a -= b;
}

}  // namespace mutation
