#include "engine/model/forms.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/digest.h"
#include "base/error.h"
#include "base/text.h"
#include "base/units.h"

namespace dlflow {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";
constexpr std::string_view kWordLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";

/// Whether `text` begins with one of the letters `first`, and has only these and `further`.
bool is_word(std::string_view text, std::string_view first, std::string_view further) {
  return !text.empty() && first.find(text[0]) != first.npos &&
         text.find_first_not_of(std::string(first).append(further)) == text.npos;
}

bool is_hex(std::string_view text, size_t length) {
  return text.size() == length && text.find_first_not_of(kHexDigits) == text.npos;
}

/// Names become folders, columns of tables, and parts of file names and of SLURM's job names, which
/// have at most 255 bytes.
constexpr size_t kLongestName = 128;

bool is_name(std::string_view text) {
  return text.size() <= kLongestName && is_word(text, kWordLetters, "0123456789-");
}
bool is_variable(std::string_view text) { return is_word(text, kWordLetters, kDigits); }

std::string advice_on_name(std::string_view text) {
  if (number_from<double>(text)) return "a list needs brackets: [VALUE, " + std::string(text) + "]";
  if (text.size() <= kLongestName) return "";
  return "it has " + std::to_string(text.size()) + " characters, but a name may have at most " +
         std::to_string(kLongestName);
}

/// Users may set the switches of the training programs and of the Python package. dlflow sets all
/// other variables with this prefix.
constexpr std::string_view kOwn = "DLFLOW_";
constexpr std::array<std::string_view, 5> kSwitches = {"STALL_TIMEOUT", "COLLECTIVES", "MEMORY",
                                                       "REPLACE_GLOO", "RUNTIME_LIBRARY"};

bool is_env(std::string_view text) {
  if (!text.starts_with(kOwn)) return is_variable(text);
  return std::ranges::find(kSwitches, text.substr(kOwn.size())) != kSwitches.end();
}

/// The regular expression of is_env(). Static, because a Form refers to its text.
const std::string& env_pattern() {
  static const std::string pattern = [] {
    std::string switches;
    for (const std::string_view name : kSwitches) {
      switches.append(switches.empty() ? "" : "|").append(name).append("$");
    }
    return "^(?!DLFLOW_(?!" + switches + "))[A-Za-z_][A-Za-z0-9_]*$";
  }();
  return pattern;
}

std::string advice_on_env(std::string_view text) {
  return text.starts_with(kOwn) ? "dlflow itself sets the names with DLFLOW_; use another" : "";
}

/// A secret must not be a variable that dlflow sets or that decides which programs run.
bool is_secret(std::string_view text) {
  return is_variable(text) && text != "PATH" && !text.starts_with("DLFLOW_") &&
         !text.starts_with("LD_");
}

bool is_licence(std::string_view text) { return is_word(text, kWordLetters, "0123456789.@-"); }

bool is_module(std::string_view text) {
  return is_word(text, std::string(kWordLetters) + "0123456789.", "+/@=:-");
}

bool is_duration(std::string_view text) {
  try {
    return parse_duration(text).count() > 0;
  } catch (const Error&) {
    return false;
  }
}

bool is_size(std::string_view text) {
  try {
    return parse_size(text) > 0;
  } catch (const Error&) {
    return false;
  }
}

constexpr uint64_t kLeastMemory = uint64_t{1} << 20;

bool is_memory(std::string_view text) { return is_size(text) && parse_size(text) >= kLeastMemory; }

std::string advice_on_memory(std::string_view text) {
  if (!is_size(text)) return "";
  const bool no_unit = trim(text).find_first_not_of("0123456789.") == text.npos;
  return "that is " + format_size(parse_size(text)) +
         (no_unit ? "; write a unit: " + std::string(trim(text)) + "MiB"
                  : "; write 512MiB or 2GiB");
}

std::string advice_on_interval(std::string_view text) {
  const std::string mistake = long_duration(text);
  return mistake.empty() ? ambiguous_duration(text) : mistake;
}

std::string advice_on_duration(std::string_view text) {
  const std::string number(text);
  if (number_from<uint32_t>(text).value_or(0) == 0) return advice_on_interval(text);
  return "write a unit: " + number + "s, " + number + "m or " + number + "h";
}

bool is_path(std::string_view text) { return !text.empty(); }

bool is_inner_path(std::string_view text) {
  if (text.empty() || text.front() == '/') return false;
  const std::vector<std::string> parts = split(text, '/');
  return std::find(parts.begin(), parts.end(), "..") == parts.end();
}

std::string advice_on_input(std::string_view text) {
  if (text.starts_with("/"))
    return "write {path: " + std::string(text) + "}, which is read in place";
  return "write {path: /…} with the absolute path, or put it beside the workflow";
}

bool is_pattern(std::string_view text) {
  const std::vector<std::string> parts = split(text, '/');
  return std::ranges::none_of(
      parts, [](const std::string& part) { return part.empty() || part == "." || part == ".."; });
}

bool is_file_name(std::string_view text) {
  return !text.empty() && text != "." && text != ".." && text.find('/') == text.npos;
}

template <size_t N>
bool is_url_of(std::string_view text, const std::array<std::string_view, N>& schemes) {
  return std::any_of(schemes.begin(), schemes.end(), [text](std::string_view scheme) {
    return text.starts_with(scheme) && text.size() > scheme.size() &&
           text.find_first_of(" \t\r\n") == text.npos;
  });
}

bool is_url(std::string_view text) {
  constexpr std::array<std::string_view, 11> kSchemes = {
      "file:///", "http://", "https://",     "ssh://",     "rclone://",   "s3://",
      "gs://",    "hf://",   "git+https://", "git+ssh://", "git+file:///"};
  return is_url_of(text, kSchemes);
}

bool is_destination(std::string_view text) {
  constexpr std::array<std::string_view, 5> kSchemes = {"file:///", "ssh://", "rclone://", "s3://",
                                                        "gs://"};
  return is_url_of(text, kSchemes);
}

bool is_selection(std::string_view text) {
  if (text == "latest") return true;
  return (text.starts_with("max ") || text.starts_with("min ")) && is_name(text.substr(4));
}

bool is_image_source(std::string_view text) {
  const size_t at = text.starts_with("docker://") ? text.find('@') : text.npos;
  if (at != text.npos && !Digest::accepts(text.substr(at + 1))) return false;
  constexpr std::array<std::string_view, 4> kTransports = {"docker-archive:", "docker://",
                                                           "oci:", "dir:"};
  return std::any_of(kTransports.begin(), kTransports.end(), [text](std::string_view transport) {
    return text.starts_with(transport) && text.size() > transport.size();
  });
}

bool is_interval(std::string_view text) { return parse_interval(text).has_value(); }
bool is_requirement(std::string_view text) { return parse_requirement(text).has_value(); }

/// "200 steps" -> 200 if the unit is `unit` or its plural.
std::optional<int64_t> parse_count(std::string_view text, std::string_view unit) {
  int64_t count = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  std::string_view word = trim(text.substr(size_t(stop - text.data())));
  if (word.ends_with('s')) word.remove_suffix(1);
  if (error != std::errc() || count < 1 || word != unit) return std::nullopt;
  return count;
}

}  // namespace

const Form kNameForm = {.what = "a name",
                        .examples = "letters, digits, - and _, with a letter or _ first",
                        .pattern = "^[A-Za-z_][A-Za-z0-9_-]{0,127}$",
                        .accepts = is_name,
                        .advice = advice_on_name};

const Form kKeyForm = {
    .what = "a key", .examples = "any text", .pattern = "", .accepts = [](std::string_view) {
      return true;
    }};

const Form kVariableForm = {.what = "the name of an environment variable",
                            .examples = "letters, digits and _, with a letter or _ first",
                            .pattern = "^[A-Za-z_][A-Za-z0-9_]*$",
                            .accepts = is_variable};

const Form kInheritedForm = {"the name of an environment variable, or the beginning of several",
                             "WANDB_MODE or WANDB_*", "^[A-Za-z_][A-Za-z0-9_]*[*]?$",
                             [](std::string_view text) {
                               if (text.ends_with('*')) text.remove_suffix(1);
                               return kVariableForm.accepts(text);
                             }};

const Form kEnvForm = {.what = "the name of an environment variable that a step may set",
                       .examples = "letters, digits and _, with a letter or _ first",
                       .pattern = env_pattern(),
                       .accepts = is_env,
                       .advice = advice_on_env};

const Form kMailForm = {.what = "a mail address",
                        .examples = "ann@example.org, or ann for a user of this machine",
                        .pattern = "^[A-Za-z0-9_.+][A-Za-z0-9_.+@-]*$",
                        .accepts = [](std::string_view text) {
                          // No '-' at the beginning: it would be an option of the mail program.
                          return is_word(text, std::string(kWordLetters) + "0123456789.+", "@-");
                        }};

const Form kSecretForm = {
    .what = "the name of a secret",
    .examples =
        "the name of a variable that has it, `export API_KEY=…`; not PATH, DLFLOW_… or LD_…",
    .pattern = "^(?!PATH$|DLFLOW_|LD_)[A-Za-z_][A-Za-z0-9_]*$",
    .accepts = is_secret};

const Form kModuleForm = {.what = "the name of a module",
                          .examples = "cuda/12.2",
                          .pattern = "^[A-Za-z0-9_.][A-Za-z0-9_.+/@=:-]*$",
                          .accepts = is_module};

const Form kLicenceForm = {.what = "the name of a licence",
                           .examples = "matlab or matlab@server",
                           .pattern = "^[A-Za-z_][A-Za-z0-9_.@-]*$",
                           .accepts = is_licence};

const Form kDurationForm = {.what = "a duration",
                            .examples = "90s, 20m, 4h or 1-12:00:00",
                            .pattern =
                                "^ *([0-9.]+[dhms])+ *$|^ *[0-9]+-[0-9]+(:[0-9]+){0,2} *$"
                                "|^ *[0-9]+(:[0-9]+){2} *$",
                            .accepts = is_duration,
                            .advice = advice_on_duration};

const Form kSizeForm = {.what = "a size",
                        .examples = "512MiB, 2GiB or 1.5GB",
                        .pattern = "^ *[0-9.]+ *[kKmMgGtT]?[iI]?[bB]? *$",
                        .accepts = is_size,
                        .or_integer = true};

const Form kMemoryForm = [] {
  Form size = kSizeForm;
  size.what = "a size of at least 1 MiB";
  size.accepts = is_memory;
  size.advice = advice_on_memory;
  return size;
}();

const Form kLineForm = {.what = "one line of text",
                        .examples = "it without control characters",
                        .pattern = "^[^\\x00-\\x1f]*$",
                        .accepts = [](std::string_view text) {
                          return std::ranges::none_of(
                              text, [](char c) { return uint8_t(c) < ' ' || c == 127; });
                        }};

const Form kPathForm = {.what = "a path",
                        .examples = "data/images or /data/images",
                        .pattern = ".",
                        .accepts = is_path};

const Form kAbsolutePathForm = {
    .what = "an absolute path",
    .examples = "/home/me/metrics",
    .pattern = "^/.",
    .accepts = [](std::string_view text) { return text.size() > 1 && text.front() == '/'; }};

const Form kDataPathForm = [] {
  Form path = kAbsolutePathForm;
  path.advice = [](std::string_view text) {
    return is_inner_path(text) ? "write inputs: [" + std::string(text) + "], or the absolute path"
                               : std::string();
  };
  return path;
}();

const Form kInnerPathForm = {.what = "a relative path without '..'",
                             .examples = "results/model.pt",
                             .pattern = "^(?!/)(?!(.*/)?[.][.](/|$)).",
                             .accepts = is_inner_path};

const Form kModelFileForm = [] {
  Form path = kPathForm;
  path.examples = "models/lenet.yaml";
  path.exists = Form::Exists::File;
  return path;
}();

const Form kInputForm = [] {
  Form path = kInnerPathForm;
  path.exists = Form::Exists::FileOrFolder;
  path.advice = advice_on_input;
  return path;
}();

const Form kFileNameForm = {.what = "a file name",
                            .examples = "train-images",
                            .pattern = "^(?![.]{1,2}$)[^/]+$",
                            .accepts = is_file_name};

const Form kUrlForm = {
    .what = "a URL",
    .examples =
        "file:///…, https://…, ssh://HOST/…, rclone://REMOTE/…, s3://BUCKET/…, gs://BUCKET/…, "
        "hf://datasets/OWNER/NAME/… or git+https://…",
    .pattern =
        "^(file:///|https?://|ssh://|rclone://|s3://|gs://|hf://|git[+](https|ssh)://"
        "|git[+]file:///)[^ ]+$",
    .accepts = is_url};

const Form kDestinationForm = {.what = "a URL to send files to",
                               .examples =
                                   "file:///FOLDER/, ssh://HOST/FOLDER/, rclone://REMOTE/, "
                                   "s3://BUCKET/ or gs://BUCKET/",
                               .pattern = "^(file:///|ssh://|rclone://|s3://|gs://)[^ ]+$",
                               .accepts = is_destination};

const Form kCommitForm = {.what = "a commit",
                          .examples = "the 40 digits that git ls-remote prints",
                          .pattern = "^[0-9a-fA-F]{40}$",
                          .accepts = [](std::string_view text) { return is_hex(text, 40); }};

const Form kSha256Form = {.what = "a SHA-256",
                          .examples = "the 64 digits that sha256sum prints",
                          .pattern = "^[0-9a-fA-F]{64}$",
                          .accepts = [](std::string_view text) { return is_hex(text, 64); }};

const Form kSelectionForm = {.what = "a selection",
                             .examples = "max accuracy, min loss or latest",
                             .pattern = "^(latest|(max|min) [A-Za-z_][A-Za-z0-9_-]*)$",
                             .accepts = is_selection};

const Form kImageSourceForm = {
    .what = "an image source",
    .examples = "docker://NAME, docker-archive:FILE, oci:FOLDER or dir:FOLDER",
    .pattern = "^((docker-archive:|oci:|dir:).|docker://[^@]+(@sha256:[0-9a-f]{64})?$)",
    .accepts = is_image_source};

const Form kDigestForm = {.what = "a digest",
                          .examples = "sha256: and 64 digits",
                          .pattern = "^sha256:[0-9a-f]{64}$",
                          .accepts = Digest::accepts};

const Form kIntervalForm = {
    .what = "an interval between checkpoints",
    .examples = "1 epoch, 200 steps or 30m",
    .pattern =
        "^[0-9]+ *(epochs?|steps?)$|^([0-9.]+[dhms])+$|^[0-9]+-[0-9]+(:[0-9]+){0,2}$"
        "|^[0-9]+(:[0-9]+){2}$",
    .accepts = is_interval,
    .advice = advice_on_interval};

const Form kPatternForm = {.what = "a pattern of relative file names without '..'",
                           .examples = "'ckpt/*.pt' or 'out/checkpoint-*'",
                           .pattern = "^(?!(.*/)?[.]{0,2}(/|$)).",
                           .accepts = is_pattern};

const Form kRequirementForm = {.what = "a comparison with a number",
                               .examples = "'>= 0.88', or with <, <=, == or >",
                               .pattern = "^ *(<|<=|==|>=|>) *[-+]?[0-9.]+([eE][-+]?[0-9]+)? *$",
                               .accepts = is_requirement};

std::optional<CheckpointPolicy> parse_interval(std::string_view text) {
  CheckpointPolicy policy;
  if (const auto epochs = parse_count(text, "epoch")) {
    policy.every = *epochs;
  } else if (const auto steps = parse_count(text, "step")) {
    policy.unit = CheckpointPolicy::Unit::Steps;
    policy.every = *steps;
  } else if (is_duration(text)) {
    policy.unit = CheckpointPolicy::Unit::Seconds;
    policy.every = parse_duration(text).count();
  } else {
    return std::nullopt;
  }
  return policy;
}

std::optional<Requirement> parse_requirement(std::string_view text) {
  constexpr std::array<std::string_view, 5> kComparisons = {"<=", ">=", "==", "<", ">"};
  text = trim(text);
  for (const std::string_view comparison : kComparisons) {
    if (!text.starts_with(comparison)) continue;
    std::string_view number = trim(text.substr(comparison.size()));
    if (number.starts_with('+')) number.remove_prefix(1);
    const auto bound = number_from<double>(number);
    if (!bound || !std::isfinite(*bound)) return std::nullopt;
    return Requirement{.metric = {}, .comparison = std::string(comparison), .bound = *bound};
  }
  return std::nullopt;
}

}  // namespace dlflow
