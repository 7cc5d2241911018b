// This program is linked with base/old_glibc.cpp, like the programs of a release.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/support/catch.h"

using namespace std::chrono_literals;

TEST_CASE("a wait by the steady clock ends at its time or when it is woken", "[old_glibc]") {
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock lock(mutex);
  const auto begin = std::chrono::steady_clock::now();
  CHECK(!changed.wait_for(lock, 30ms, [] { return false; }));
  CHECK(std::chrono::steady_clock::now() - begin >= 30ms);

  bool is_there = false;
  std::thread other([&] {
    const std::lock_guard guard(mutex);
    is_there = true;
    changed.notify_one();
  });
  CHECK(changed.wait_for(lock, 1min, [&] { return is_there; }));
  other.join();
}

TEST_CASE("mathematical functions give the same bits as this glibc", "[old_glibc]") {
  void* const library = ::dlopen("libm.so.6", RTLD_NOW);
  REQUIRE(library != nullptr);
  const auto newest = [&](const char* name) {
    return reinterpret_cast<double (*)(double)>(::dlsym(library, name));
  };
  for (const double x : {1e-300, 0.1, 1.0, 2.718281828, 700.0, 1e10}) {
    CHECK(std::exp(x) == newest("exp")(x));
    CHECK(std::log(x) == newest("log")(x));
    CHECK(std::pow(x, 0.3) ==
          reinterpret_cast<double (*)(double, double)>(::dlsym(library, "pow"))(x, 0.3));
  }
  CHECK(::gettid() == ::getpid());
}
