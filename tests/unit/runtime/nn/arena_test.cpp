#include "runtime/nn/arena.h"

#include "tests/support/catch.h"

using namespace dlflow::runtime;
using dnnl::memory;

namespace {

memory::desc floats(int64_t count) {
  return {{count}, memory::data_type::f32, memory::format_tag::a};
}

char* address(const memory& m) { return static_cast<char*>(m.get_data_handle()); }

}  // namespace

TEST_CASE("values that never live together share memory", "[arena]") {
  Arena arena{dnnl::engine(dnnl::engine::kind::cpu, 0)};
  const memory a = arena.add(floats(1000), 0);
  arena.keep(a, 1);
  const memory b = arena.add(floats(1000), 1);
  const memory c = arena.add(floats(1000), 2);
  arena.allocate();
  CHECK(address(a) != address(b));
  CHECK(address(c) == address(a));
  CHECK(arena.bytes() == 2 * 4032);  // whole cache lines
}

TEST_CASE("a view has the address of what it views", "[arena]") {
  Arena arena{dnnl::engine(dnnl::engine::kind::cpu, 0)};
  const memory first = arena.add(floats(3), 0);
  const memory a = arena.add(floats(12), 0);
  const memory view = arena.view(a, {{3, 4}, memory::data_type::f32, memory::format_tag::ab});
  arena.keep(view, 7);
  const memory later = arena.add(floats(12), 7);
  arena.allocate();
  CHECK(address(a) == address(view));
  CHECK(address(later) != address(view));
  CHECK(address(first) != nullptr);
}
