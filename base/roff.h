#pragma once

#include <string>

/// Pieces of a man page in roff, in the requests of man(7). Every text is escaped: nothing in it is
/// taken for a request.
namespace dlflow::roff {

std::string plain(const std::string& text);
std::string bold(const std::string& text);
std::string italic(const std::string& text);

/// `text` as titles are written, and arguments that have no other name.
std::string capitals(std::string text);

/// The first lines of page `name` of section 1: its title, and `summary` without its full stop.
std::string heading(const std::string& name, const std::string& summary);

/// `body`, which is roff already, below a title; nothing if there is no body.
std::string section(const std::string& title, const std::string& body);

/// A term, which is roff already, with its meaning.
std::string item(const std::string& term, const std::string& meaning);

/// Lines as they would be typed.
std::string literal(const std::string& text);

}  // namespace dlflow::roff
