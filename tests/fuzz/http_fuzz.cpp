#include "base/error.h"
#include "steps/transfer/curl.h"
#include "tests/fuzz/fuzz.h"

using namespace dlflow;

/// Reads the headers of a web server's answer.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(data, data + size);
  const steps::HttpResponse response = steps::parse_response(text);
  DLFLOW_CHECK(response.status >= 0 && response.status <= 999);
  DLFLOW_CHECK(response.etag.find('\n') == std::string::npos);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {"HTTP/1.1 302 Found\r\nLocation: /b\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
          "HTTP/2 206\r\ncontent-range: bytes 3-4/5\r\netag: \"a\"\r\n\r\n",
          "HTTP/1.1 416 No\r\nContent-Range: bytes */18446744073709551616\r\n\r\n"};
}
