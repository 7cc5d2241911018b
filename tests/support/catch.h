#pragma once

// Debian 12 has Catch2 2.13, whose header is not that of version 3.
#include <catch2/catch.hpp>
