#pragma once

namespace dlflow {

/// A TCP port of this machine that nobody listens at, and that the kernel gives to nobody who does
/// not ask for it by its number. Another process may take it before the caller does; different
/// calls give different ports with high probability. Throws Error{Unavailable} if none is found.
int free_port();

}  // namespace dlflow
