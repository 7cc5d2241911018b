#include "steps/transfer/hub.h"

#include <stdlib.h>

#include <mutex>

#include "base/error.h"
#include "base/json.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_dir.h"
#include "tests/support/variable.h"
#include "tests/unit/steps/transfer/servers.h"

using namespace dlflow;
using namespace dlflow::steps;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

const std::string kSha256(64, 'a');

std::string answer(const Json& body, const std::string& header = "") {
  const std::string text = body.dump();
  return "HTTP/1.1 200 OK\r\n" + header + "Content-Length: " + std::to_string(text.size()) +
         "\r\n\r\n" + text;
}

/// A hub with answers made by a test, and a log of requests.
class Hub {
 public:
  /// \param answers  by the request's path; other paths do not exist.
  explicit Hub(std::map<std::string, std::string> answers)
      : answers_(std::move(answers)), server_([this](const std::string& request) {
          const size_t begin = request.find(' ') + 1;
          const std::string path = request.substr(begin, request.find(' ', begin) - begin);
          const std::scoped_lock lock(mutex_);
          asked_.push_back(path);
          authorized_ += request.find("Authorization: Bearer secret\r\n") != request.npos ? 1 : 0;
          const auto found = answers_.find(path);
          if (found != answers_.end()) return found->second;
          return std::string("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        }) {}

  /// "NAME BYTES VERSION SHA256" of each file.
  std::vector<std::string> list(const std::string& address) const {
    std::vector<std::string> lines;
    for (const RemoteFile& file : hub_list(parse_address(address), folder_.path() / "list")) {
      lines.push_back(file.name + " " + (file.bytes ? std::to_string(*file.bytes) : "?") + " " +
                      file.version + " " + file.sha256);
    }
    return lines;
  }

  std::vector<std::string> asked() const {
    const std::scoped_lock lock(mutex_);
    return asked_;
  }
  int authorized() const {
    const std::scoped_lock lock(mutex_);
    return authorized_;
  }
  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  test::TempDir folder_;
  std::map<std::string, std::string> answers_;
  mutable std::mutex mutex_;
  std::vector<std::string> asked_;
  int authorized_ = 0;
  test::AnsweringServer server_;
  test::Variable endpoint_{"HF_ENDPOINT", "http://" + server_.host() + "/"};
  test::Variable token_{"HF_TOKEN", {}};
};

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a hub's list is read to its last page", "[hub]") {
  const Json first = {{{"type", "directory"}, {"path", "train/sub"}},
                      {{"type", "file"},
                       {"path", "train/b.bin"},
                       {"size", 7},
                       {"oid", "git-b"},
                       {"lfs", {{"oid", kSha256}}}},
                      "no entry"};
  const Json second = {{{"type", "file"}, {"path", "train/a"}, {"size", -1}, {"lfs", 1}},
                       {{"type", "file"}, {"path", "train/c"}, {"lfs", {{"oid", "short"}}}}};
  const std::string tree = "/api/datasets/o/n/tree/v1/train?recursive=true";
  const Hub hub(
      {{tree, answer(first, "Link: <https://elsewhere" + tree + "&page=2>; rel=\"next\"\r\n")},
       {tree + "&page=2", answer(second)}});
  CHECK(hub.list("hf://datasets/o/n@v1/train/") ==
        Lines{"a ?  ", "b.bin 7 git-b " + kSha256, "c ?  "});
  CHECK(hub.asked() == Lines{tree, tree + "&page=2"});
  CHECK(hub.authorized() == 0);
  CHECK_FALSE(std::filesystem::exists(hub.folder() / "list.list"));
}

TEST_CASE("only the requested file of a hub's folder is taken", "[hub]") {
  const Json entries = {{{"type", "file"}, {"path", "d/x"}, {"size", 1}, {"oid", "1"}},
                        {{"type", "file"}, {"path", "d/y z"}, {"size", 2}, {"oid", "2"}}};
  const Json top = {{{"type", "file"}, {"path", "about"}, {"size", 3}, {"oid", "3"}}};
  const Hub hub({{"/api/models/o/n/tree/main/d%20e", answer(entries)},
                 {"/api/models/o/n/tree/main/d", answer(entries)},
                 {"/api/models/o/n/tree/main", answer(top)}});
  CHECK(hub.list("hf://o/n/d/y%20z") == Lines{" 2 2 "});
  CHECK(hub.list("hf://o/n/about") == Lines{" 3 3 "});
  CHECK_THROWS_WITH(hub.list("hf://o/n/d/none"), Contains("there is no such file"));
  CHECK_THROWS_WITH(hub.list("hf://o/n/d%20e/x"), Contains("there is no such file"));
  CHECK_THROWS_WITH(hub.list("hf://o/other/x"), Contains("there is no such file"));
}

TEST_CASE("only the hub gets the token", "[hub]") {
  const Hub hub({{"/api/spaces/o/n/tree/main",
                  answer({{{"type", "file"}, {"path", "x"}, {"size", 1}, {"oid", "1"}}})},
                 {"/spaces/o/n/resolve/main/x", answer(Json(7))}});
  ::setenv("HF_TOKEN", "secret", 1);
  CHECK(hub.list("hf://spaces/o/n/x") == Lines{" 1 1 "});
  CHECK(hub.authorized() == 1);

  DownloadRequest request{.address = parse_address("hf://spaces/o/n/x"),
                          .partial = hub.folder() / "partial",
                          .known_version = "older"};
  request.listed.version = "1";
  request.progress = [](uint64_t, std::optional<uint64_t>) {};
  const Downloaded downloaded =
      download(request, hub.folder() / "curl", {.max_tries = 1, .first_wait = 1ms});
  CHECK(downloaded.version == "1");  // the hub's version, which the next list contains
  CHECK_FALSE(downloaded.unchanged);
  CHECK(read_file(request.partial) == "7");
  CHECK(hub.authorized() == 2);

  request.known_version = "1";
  CHECK(download(request, hub.folder() / "curl", {}).unchanged);
  CHECK(hub.authorized() == 2);  // no further request was made

  ::setenv("HF_TOKEN", GENERATE("two words", "line\n", "\x7f", "caf\xc3\xa9"), 1);
  CHECK_THROWS_WITH(hub.list("hf://spaces/o/n/x"), Contains("HF_TOKEN is not a token"));
  CHECK(hub.authorized() == 2);
}

TEST_CASE("a file that changed since the hub listed it is refused", "[hub]") {
  const std::string listed(40, 'a');
  const std::string now = GENERATE(std::string(40, 'a'), std::string(40, 'b'));
  const Hub hub({{"/o/n/resolve/main/x", answer(Json(7), "ETag: \"" + now + "\"\r\n")}});
  DownloadRequest request{.address = parse_address("hf://o/n/x"),
                          .partial = hub.folder() / "partial"};
  request.listed.version = listed;
  request.progress = [](uint64_t, std::optional<uint64_t>) {};
  const auto get = [&] {
    return download(request, hub.folder() / "curl", {.max_tries = 1, .first_wait = 1ms});
  };
  if (now == listed) {
    CHECK(get().version == listed);
  } else {
    CHECK_THROWS_WITH(get(), Contains("changed after the hub had listed it"));
    CHECK_FALSE(std::filesystem::exists(request.partial));
  }
}

TEST_CASE("a server that lists no files is not a hub", "[hub]") {
  const Hub hub(
      {{"/api/models/o/object/tree/main", answer({{"error", "none"}})},
       {"/api/models/o/lost/tree/main",
        answer(Json::array(), "Link: <http://elsewhere/list?page=2>; rel=\"next\"\r\n")}});
  CHECK_THROWS_WITH(hub.list("hf://o/object/x"), Contains("is not a list of files"));
  CHECK_THAT(test::error_of([&] { hub.list("hf://o/lost/x"); }, Errc::Unavailable),
             Contains("continues at http://elsewhere/list?page=2"));
}
