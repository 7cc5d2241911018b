#pragma once

#include <sys/resource.h>

#include <csignal>

namespace dlflow::test {

/// A limit of this process for this object's lifetime. RLIMIT_FSIZE simulates a full disk: a write
/// fails, and no signal ends the program.
template <auto kResource>
class Limited {
 public:
  explicit Limited(rlim_t value) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(kResource, &before_);
    const rlimit limit{value, before_.rlim_max};
    ::setrlimit(kResource, &limit);
  }
  Limited(const Limited&) = delete;
  Limited& operator=(const Limited&) = delete;
  ~Limited() {
    ::setrlimit(kResource, &before_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit before_{};
  void (*old_handler_)(int);
};

}  // namespace dlflow::test
