#pragma once

#include <string>

/// Pieces of a man page in roff, in the requests of man(7). All texts are escaped, so that none is
/// read as a request.
namespace dlflow::roff {

std::string plain(const std::string& text);
std::string bold(const std::string& text);
std::string italic(const std::string& text);

/// `text` in the font of titles and of unnamed arguments.
std::string capitals(std::string text);

/// The first lines of page `name` of section 1: its title, and `summary` without its full stop.
std::string heading(const std::string& name, const std::string& summary);

/// `body`, already in roff, below a title; empty without a body.
std::string section(const std::string& title, const std::string& body);

/// A term, already in roff, with its meaning.
std::string item(const std::string& term, const std::string& meaning);

/// Lines as they are typed.
std::string literal(const std::string& text);

}  // namespace dlflow::roff
