/// Functions that the compiler's static libraries need from a newer glibc than the one a release is
/// linked with (cmake/old_system.cmake). They are hidden outside of the program or library.
#include <pthread.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>

// Versions since glibc 2.28 differ from these only in errors, which no caller here checks.
__asm__(".symver dlflow_exp, exp@GLIBC_2.2.5");
__asm__(".symver dlflow_log, log@GLIBC_2.2.5");
__asm__(".symver dlflow_pow, pow@GLIBC_2.2.5");
__asm__(".hidden exp, log, pow");  // -fvisibility has no effect on builtins
extern "C" double dlflow_exp(double);
extern "C" double dlflow_log(double);
extern "C" double dlflow_pow(double, double);

namespace {

constexpr int64_t kSecond = 1'000'000'000;

int64_t nanoseconds(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

int64_t now(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return nanoseconds(time);
}

}  // namespace

extern "C" {

/// Always reports several threads.
char __libc_single_threaded = 0;

/// Used by std::random_device.
uint32_t arc4random() noexcept {
  uint32_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) std::abort();
  return number;
}

pid_t gettid() noexcept { return pid_t(::syscall(SYS_gettid)); }

/// Waits by the wall clock, which may be set meanwhile: wakes up at least once a second, so that
/// the caller checks its own clock.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  const int64_t left = nanoseconds(*until) - now(clock);
  const int64_t end = now(CLOCK_REALTIME) + std::clamp<int64_t>(left, 0, kSecond);
  const timespec limit{end / kSecond, end % kSecond};
  const int status = ::pthread_cond_timedwait(condition, mutex, &limit);
  return status == ETIMEDOUT && now(clock) < nanoseconds(*until) ? 0 : status;
}

double exp(double x) noexcept { return dlflow_exp(x); }
double log(double x) noexcept { return dlflow_log(x); }
double pow(double x, double y) noexcept { return dlflow_pow(x, y); }

}  // extern "C"
