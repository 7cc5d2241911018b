#pragma once

#include <string>
#include <string_view>
#include <vector>

/// A Python script as text: calls and the texts in them, found without a parser.
namespace dlflow {

/// The arguments of each call of `function`: "model, 'a.pt'" of "torch.save(model, 'a.pt')".
std::vector<std::string> calls_of(std::string_view text, std::string_view function);

/// The argument called `name`, or else number `index` (from 0); empty if there is none.
std::string argument(const std::string& call, std::string_view name, size_t index);

/// The pattern of the paths that `expression` stands for: "ckpt/*.pt" of f"ckpt/{epoch}.pt" and of
/// os.path.join("ckpt", name + ".pt"). A variable has the first value that `text` gives it. An
/// unknown folder is "" or "*": "/last.pt".
std::string path_pattern(std::string_view expression, std::string_view text);

}  // namespace dlflow
