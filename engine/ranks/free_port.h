#pragma once

namespace dlflow {

/// Returns a TCP port of this machine on which nobody listens and which the kernel does not assign
/// by itself. Another process may take it before the caller does; different calls return different
/// ports with high probability. Throws Error{Unavailable} if none is found.
int free_port();

}  // namespace dlflow
