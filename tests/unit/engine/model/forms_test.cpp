#include "engine/model/forms.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"

using namespace dlflow;

namespace {

/// Returns the texts that have the form.
std::vector<std::string> accepted(const Form& form, const std::vector<std::string>& texts) {
  std::vector<std::string> good;
  for (const std::string& text : texts) {
    if (form.accepts(text)) good.push_back(text);
  }
  return good;
}

/// Returns the number that `parse_interval` finds, with the letter of its unit.
std::string interval(const std::string& text) {
  const auto policy = parse_interval(text);
  if (!policy) return "none";
  const char* unit = policy->unit == CheckpointPolicy::Unit::Epochs  ? "e"
                     : policy->unit == CheckpointPolicy::Unit::Steps ? "s"
                                                                     : "t";
  return std::to_string(policy->every) + unit;
}

std::string requirement(const std::string& text) {
  const auto found = parse_requirement(text);
  if (!found) return "none";
  return found->comparison + " " + std::to_string(found->bound);
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a name has letters, digits, - and _, begins with no digit, and ends at 128 characters",
          "[forms]") {
  const std::string longest(128, 'x');
  CHECK(accepted(kNameForm, {"a", "lr_2-b", "_a", longest, longest + "x", "", "2a", "-a", "a.b",
                             "a b"}) == Texts{"a", "lr_2-b", "_a", longest});
  CHECK(accepted(kVariableForm, {"A_1", "a", "A-B", "1A", ""}) == Texts{"A_1", "a"});
  const Texts switches = {"DLFLOW_STALL_TIMEOUT", "DLFLOW_COLLECTIVES", "DLFLOW_MEMORY",
                          "DLFLOW_REPLACE_GLOO", "DLFLOW_RUNTIME_LIBRARY"};
  CHECK(accepted(kEnvForm, switches) == switches);
  CHECK(accepted(kEnvForm, {"A", "DLFLOW_RUN", "DLFLOW_", "DLFLOW_MEMORY_OF", "A-B"}) ==
        Texts{"A"});
  CHECK(accepted(kSecretForm, {"TOKEN", "PATH", "DLFLOW_X", "LD_PRELOAD", "A-B"}) ==
        Texts{"TOKEN"});
}

TEST_CASE("durations and sizes are positive, and memory is at least a MiB", "[forms]") {
  CHECK(accepted(kDurationForm, {"0s", "1s", "1-00:00:00", "soon"}) == Texts{"1s", "1-00:00:00"});
  CHECK(accepted(kSizeForm, {"0", "1", "2GiB", "big"}) == Texts{"1", "2GiB"});
  CHECK(accepted(kMemoryForm, {"1048575", "1048576", "1MiB"}) == Texts{"1048576", "1MiB"});
}

TEST_CASE("paths stay within their folders", "[forms]") {
  CHECK(accepted(kPathForm, {"", "a"}) == Texts{"a"});
  CHECK(accepted(kAbsolutePathForm, {"/", "/a", "a", ""}) == Texts{"/a"});
  CHECK(accepted(kInnerPathForm, {"", "a/b", "/a", "a/../b", "..", "a..b"}) ==
        Texts{"a/b", "a..b"});
  CHECK(accepted(kFileNameForm, {"", "a", ".", "..", "a/b"}) == Texts{"a"});
}

TEST_CASE("a URL is a scheme followed by text", "[forms]") {
  CHECK(accepted(kUrlForm, {"https://", "https://h/x", "https://h/a b", "ftp://h/x",
                            "git+ssh://h/x", "h/x", ""}) == Texts{"https://h/x", "git+ssh://h/x"});
  CHECK(accepted(kDestinationForm, {"https://h/x", "ssh://h/x", "file:///x", "rclone://"}) ==
        Texts{"ssh://h/x", "file:///x"});
  const std::string digest = "sha256:" + std::string(64, 'a');
  CHECK(accepted(kImageSourceForm,
                 {"docker://", "docker://a", "docker://a@" + digest, "docker://a@sha256:1",
                  "oci:", "oci:x", "oci:x@y", "dir:/x", "/x"}) ==
        Texts{"docker://a", "docker://a@" + digest, "oci:x", "oci:x@y", "dir:/x"});
}

TEST_CASE("hashes have their number of hexadecimal digits", "[forms]") {
  const std::string commit(40, 'a');
  const std::string sha256(64, 'B');
  CHECK(accepted(kCommitForm, {commit, commit + "0", std::string(40, 'g'), ""}) == Texts{commit});
  CHECK(accepted(kSha256Form, {sha256, sha256 + "0", sha256.substr(1), std::string(64, 'g')}) ==
        Texts{sha256});
}

TEST_CASE("a checkpoint is chosen by a metric, or is the latest", "[forms]") {
  CHECK(accepted(kSelectionForm, {"latest", "max accuracy", "min loss", "max", "max ", "mean loss",
                                  "accuracy", "max a b"}) ==
        Texts{"latest", "max accuracy", "min loss"});
}

TEST_CASE("intervals are counted in epochs, steps or time", "[forms]") {
  CHECK(interval("1 epoch") == "1e");
  CHECK(interval("2 epochs") == "2e");
  CHECK(interval("200 steps") == "200s");
  CHECK(interval("30m") == "1800t");
  for (const char* text :
       {"0 steps", "-1 steps", "steps", "99999999999999999999 steps", "2 moons", "0s", ""}) {
    CHECK(interval(text) == "none");
  }
}

TEST_CASE("a requirement is a comparison with a finite number", "[forms]") {
  CHECK(requirement(" >= 0.5 ") == ">= 0.500000");
  CHECK(requirement("<+2") == "< 2.000000");
  CHECK(requirement("==-1e1") == "== -10.000000");
  for (const char* text :
       {"", ">", ">=", "> x", "> 1x", "> 1e999", "> inf", "> nan", "0.5", "!= 1"}) {
    CHECK(requirement(text) == "none");
  }
}
