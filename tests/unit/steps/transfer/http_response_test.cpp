#include "steps/transfer/curl.h"
#include "tests/support/catch.h"

using namespace dlflow::steps;

TEST_CASE("only the last of several answers counts, after any redirects", "[http]") {
  const HttpResponse response = parse_response(
      "HTTP/1.1 302 Found\r\nContent-Length: 5\r\nETag: \"old\"\r\n\r\n"
      "HTTP/2 200\r\ncontent-length: 1234\r\netag: \"new\"\r\n\r\n");
  CHECK(response.status == 200);
  CHECK(response.total_bytes == 1234);
  CHECK(response.etag == "\"new\"");
}

TEST_CASE("a partial answer gives the size of the whole", "[http]") {
  CHECK(parse_response("HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\n"
                       "Content-Range: bytes 95-99/100\r\n")
            .total_bytes == 100);
  CHECK(parse_response("HTTP/1.1 416 No\r\nContent-Range: bytes */100\r\n").total_bytes == 100);
  CHECK_FALSE(parse_response("HTTP/1.1 206 x\r\nContent-Range: bytes 0-1/*\r\n").total_bytes);
}

TEST_CASE("an incomplete or invalid answer is read as far as possible", "[http]") {
  CHECK(parse_response("").status == 0);
  CHECK(parse_response("HTTP/1.1").status == 0);
  CHECK(parse_response("HTTP/1.1 abc\r\n").status == 0);
  CHECK_FALSE(parse_response("HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n").total_bytes);
  CHECK_FALSE(parse_response("HTTP/1.1 404 No\r\nContent-Length: 9\r\n").total_bytes);
  CHECK(parse_response("HTTP/1.1 200 OK\r\nETag: W/\"weak\"\r\n").etag == "W/\"weak\"");
}

TEST_CASE("the address of a list's next page is read", "[http]") {
  CHECK(parse_response("HTTP/1.1 200 OK\r\nLink: <https://h/x?cursor=a>; rel=\"next\"\r\n").next ==
        "https://h/x?cursor=a");
  CHECK(parse_response("HTTP/1.1 200 OK\r\nLink: <https://h/x>; rel=\"prev\"\r\n").next.empty());
  CHECK(parse_response("HTTP/1.1 200 OK\r\nLink: nonsense; rel=\"next\"\r\n").next.empty());
}
