#pragma once

namespace dlflow {

/// `dlflow local-launcher FD`: a process that does nothing but hand passes to supervisors, for the
/// LocalBackend at the other end of the socket FD. They are its children (worker.h), each in a
/// session of its own; it forks another if all have work. It is small and stays small, so that the
/// hundred-thousandth fork costs what the first did.
///
/// It returns, and the process should end, when the other end is closed; the supervisors finish
/// what they have.
/// \return an exit status.
int local_launcher_main(int socket_fd);

}  // namespace dlflow
