#pragma once

#define CATCH_CONFIG_ENABLE_PAIR_STRINGMAKER  // a map that is not the wanted one is shown
// Debian 12 has Catch2 2.13, whose header is not that of version 3.
#include <catch2/catch.hpp>
