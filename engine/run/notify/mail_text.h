#pragma once

#include <string>

namespace dlflow {

/// A mail as `sendmail` reads it, in UTF-8. \param subject  one line
std::string mail_text(const std::string& address, const std::string& subject,
                      const std::string& body);

}  // namespace dlflow
