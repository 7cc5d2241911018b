#include "runtime/c_api/dlflow_runtime.h"

/* The header is C, and its number is the library's. */
int abi_in_c(void) { return dlflow_abi() == DLFLOW_ABI; }
