#include "engine/report/report_page.h"

#include "engine/report/page/parts.h"
#include "tests/support/catch.h"

using namespace dlflow;

TEST_CASE("text of a run cannot end the element that holds its data", "[report]") {
  if (page_parts().chart_library.empty()) {
    CHECK_THROWS_WITH(report_page(Json::object()), Catch::Contains("libjs-chart.js"));
    return;
  }
  const std::string evil = "</script><script>alert(1)</script><!-- \xff";
  const std::string page = report_page({{"runs", {{{"run", evil}}}}});
  CHECK(page.find("alert(1)</script>") == page.npos);
  CHECK(page.find("\\u003c/script>\\u003cscript>alert(1)") != page.npos);
}

TEST_CASE("the page allows its own script and style, and no other sources", "[report]") {
  if (page_parts().chart_library.empty()) return;
  const std::string page = report_page(Json::object());
  CHECK(page.find("default-src 'none'; script-src 'sha256-") != page.npos);
  CHECK(page.find("unsafe-inline") == page.npos);
  for (const char* load : {"src=", "href=\"http", "url(", "@import"}) {
    CHECK(page.substr(0, page.find("<script")).find(load) == page.npos);
  }
  CHECK(page.find("Permission is hereby granted") != page.npos);  // Chart.js's licence
}
