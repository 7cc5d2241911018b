#include "runtime/collectives/folding.h"

#include "runtime/collectives/exchange_and_add.h"

namespace dlflow::runtime {

Task folded(Link link, Values values, Task (*core)(Link, Values, Folding)) {
  const Folding folding(link);
  const Values nothing = values.subrange(0, 0);
  if (folding.hands_over()) {
    co_await exchange_and_add(link, values, folding.partner(), nothing, folding.partner());
    co_await link.receive(values.bytes(), folding.partner());
    co_return;
  }
  if (folding.takes_over()) {
    co_await exchange_and_add(link, nothing, folding.partner(), values, folding.partner());
  }
  co_await core(link, values, folding);
  if (folding.takes_over()) co_await link.send(values.bytes(), folding.partner());
}

}  // namespace dlflow::runtime
