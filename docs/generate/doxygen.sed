# SPDX-License-Identifier: Apache-2.0
# For Doxygen: a comment behind a struct of one line, as the catalogue has them, is its docstring; value types and the
# lines of vendors' types need none; and a template argument in a docstring is no HTML.
s#^(struct [a-z0-9_]+ [{].*[}];) +// (.*)$#/** \2 */ \1#
s#^using ([a-z0-9_]+)_t = minifloat<\1>;#/** A number of format \1. */ &#
s#^template <>$#/** What this type holds. */ &#
s#^template <> inline constexpr holds#/** What this type holds. */ &#
/^ *\/\/\//s#<B(>|,)#\\<B\1#g
