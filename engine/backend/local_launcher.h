#pragma once

namespace dlflow {

/// `dlflow local-launcher FD`: a process that only hands passes to supervisors, for the
/// LocalBackend at the other end of the socket FD. The supervisors are its children (worker.h),
/// each in a session of its own; it forks another if all are busy. It stays small, so that the
/// hundred-thousandth fork costs no more than the first.
///
/// It returns, and the process should end, when the other end is closed. The supervisors finish
/// their passes.
/// \return an exit status.
int local_launcher_main(int socket_fd);

}  // namespace dlflow
