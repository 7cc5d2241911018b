// The compiled part of fmt: Debian has it as a shared library only, but dlflow is a static
// executable. With FMT_HEADER_ONLY, every source that formats would compile it again.
#include <fmt/format-inl.h>

namespace fmt::detail {

template void vformat_to(buffer<char>&, string_view, format_args, locale_ref);
template thousands_sep_result<char> thousands_sep_impl(locale_ref);
template char decimal_point_impl(locale_ref);
template dragonbox::decimal_fp<float> dragonbox::to_decimal(float) noexcept;
template dragonbox::decimal_fp<double> dragonbox::to_decimal(double) noexcept;
template void buffer<char>::append(const char*, const char*);
template locale_ref::locale_ref(const std::locale&);
template std::locale locale_ref::get() const;

}  // namespace fmt::detail
