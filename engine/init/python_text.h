#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Finds calls and their arguments in the text of a Python script, without a parser.
namespace dlflow {

/// The arguments of each call of `function`: "model, 'a.pt'" of "torch.save(model, 'a.pt')".
std::vector<std::string> calls_of(std::string_view text, std::string_view function);

/// The argument called `name`, else the argument at `index` (from 0); empty if both are missing.
std::string argument(const std::string& call, std::string_view name, size_t index);

/// The pattern of the paths that `expression` can have: "ckpt/*.pt" of f"ckpt/{epoch}.pt" and of
/// os.path.join("ckpt", name + ".pt"). A variable has the first value that `text` gives it. An
/// unknown folder is "" or "*": "/last.pt".
std::string path_pattern(std::string_view expression, std::string_view text);

}  // namespace dlflow
