#pragma once

#include <grp.h>
#include <unistd.h>

#include "base/error.h"
#include "tests/support/in_child.h"

namespace dlflow::test {

/// Whether this process may become `user` and `group`: root may, unless a container forbids it.
inline bool may_be(uid_t user, gid_t group) {
  return in_child([&] {
           return ::setgroups(0, nullptr) == 0 && ::setresgid(group, group, 0) == 0 &&
                  ::setresuid(user, user, 0) == 0;
         }) == 1;
}

/// Makes this process another user for this object's lifetime; requires root. Children that are
/// started meanwhile stay that user.
class AsUser {
 public:
  AsUser(uid_t user, gid_t group) {
    DLFLOW_CHECK(::setgroups(0, nullptr) == 0);
    DLFLOW_CHECK(::setresgid(group, group, 0) == 0);
    DLFLOW_CHECK(::setresuid(user, user, 0) == 0);
  }
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;
  ~AsUser() {
    const bool is_root = ::setresuid(0, 0, 0) == 0 && ::setresgid(0, 0, 0) == 0;
    if (!is_root) ::_exit(1);
  }
};

}  // namespace dlflow::test
