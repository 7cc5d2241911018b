#include "base/error.h"
#include "runtime/import/table.h"
#include "tests/fuzz/fuzz.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace std::string_literals;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string content(data, data + size);
  for (const bool numbers : {true, false}) {
    const TableColumns columns = numbers ? TableColumns{{}, {"y"}, ""} : TableColumns{{}, {}, "y"};
    try {
      const Table table = parse_table(content, "input", columns, numbers ? ',' : '\t');
      DLFLOW_CHECK(table.dataset.shape.channels == table.features.size());
      DLFLOW_CHECK(table.dataset.size() <= size);
      for (size_t i = 0; i < table.dataset.labels.size(); ++i) {
        DLFLOW_CHECK(table.dataset.labels[i] < table.classes.size());
      }
    } catch (const Error& error) {
      DLFLOW_CHECK(error.code() == Errc::Corrupt || error.code() == Errc::InvalidInput);
    }
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {"x,y\n1,2\n3,4\n", "\xEF\xBB\xBF\"a\nb\",y,x\r\n1e5,-2,+3\r\n\r\n4,\"5\",6",
          "x\ty\n1\tcat\n2\tdog\n", "x\ty\n1\t10\n2\t9\n3\t\n", "y,x\n\"1\"\"\",nan\n,\n1\n"};
}
