#pragma once

/// The processor cores of this machine.
namespace dlflow {

/// The number of cores that the calling thread may use. (`get_nprocs` and
/// `std::thread::hardware_concurrency` count all cores of the machine.)
int usable_cores();

}  // namespace dlflow
