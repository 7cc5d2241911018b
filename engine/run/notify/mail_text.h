#pragma once

#include <string>

namespace dlflow {

/// `text`, one line of UTF-8, as a header holds it: ASCII as it is, else as encoded words of RFC
/// 2047, which are short, with `between` between two of them.
std::string in_header(const std::string& text, const std::string& between = " ");

/// A mail as `sendmail` reads it, in UTF-8. \param subject  one line
std::string mail_text(const std::string& address, const std::string& subject,
                      const std::string& body);

}  // namespace dlflow
