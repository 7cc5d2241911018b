#pragma once

namespace dlflow {

/// `dlflow local-launcher FD`: a process that does nothing but fork supervisors, each in a session
/// of its own, for the LocalBackend at the other end of the socket FD. It is small and stays small,
/// so that the hundred-thousandth fork costs what the first did.
///
/// It returns, and the process should end, when the other end is closed; the supervisors go on.
/// \return an exit status.
int local_launcher_main(int socket_fd);

}  // namespace dlflow
