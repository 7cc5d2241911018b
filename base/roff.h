#pragma once

#include <string>

/// Pieces of a man page in roff, in the requests of man(7). Every text is escaped, so that no part
/// of it is read as a request.
namespace dlflow::roff {

std::string plain(const std::string& text);
std::string bold(const std::string& text);
std::string italic(const std::string& text);

/// `text` in the font of titles, and of arguments without another name.
std::string capitals(std::string text);

/// The first lines of page `name` of section 1: its title, and `summary` without its full stop.
std::string heading(const std::string& name, const std::string& summary);

/// `body`, which is roff already, below a title; nothing if there is no body.
std::string section(const std::string& title, const std::string& body);

/// A term, which is roff already, with its meaning.
std::string item(const std::string& term, const std::string& meaning);

/// Lines in the form in which they are typed.
std::string literal(const std::string& text);

}  // namespace dlflow::roff
