#pragma once

#define CATCH_CONFIG_ENABLE_PAIR_STRINGMAKER  // a map that is not the wanted one is shown
// Version 2 is a single header. Version 3 renamed some of what tests use.
#if __has_include(<catch2/catch.hpp>)
#include <catch2/catch.hpp>
#else
#include <catch2/catch_all.hpp>
namespace Catch {
using Matchers::EndsWith, Matchers::Equals, Matchers::Matches, Matchers::Message,
    Matchers::StartsWith;
inline auto Contains(const std::string& text) { return Matchers::ContainsSubstring(text); }
using TestEventListenerBase = EventListenerBase;
}  // namespace Catch
using Catch::Approx;
#endif
