// SPDX-License-Identifier: Apache-2.0
// THE catalogue of formats and the list of them, all_formats. A format is added here and nowhere else.
// Source: OCP MX 1.0 (e2m1, e2m3, e3m2, e8m0, int8), OCP OFP8 1.0 (e4m3, e5m2), IEEE 754-2019 (fp16), see each line for others.
#ifndef LOFT_FORMATS_HPP
#define LOFT_FORMATS_HPP

#include "loft/format.hpp"

namespace loft {

// Each value is exponent bits, mantissa bits, bias, then what differs from a signed format whose codes are all finite.

struct e2m1 { static constexpr format_spec spec{2, 1, 1}; };                                // 0 .5 1 1.5 2 3 4 6
struct e4m3 { static constexpr format_spec spec{4, 3, 7, specials::nan}; };                 // max 448
struct e5m2 { static constexpr format_spec spec{5, 2, 15, specials::ieee}; };               // max 57344
struct bf16 { static constexpr format_spec spec{8, 7, 127, specials::ieee}; };              // the upper half of a float
struct fp16 { static constexpr format_spec spec{5, 10, 15, specials::ieee}; };              // binary16

// Scales: unsigned. e8m0 has neither zero nor subnormals: its code c is 2^(c - 127).
struct ue4m3 { static constexpr format_spec spec{4, 3, 7, specials::nan, false}; };         // NVFP4's block scale
struct e8m0 { static constexpr format_spec spec{8, 0, 127, specials::nan, false, false}; }; // MX's block scale

/// A list of types; `for_each` calls f(T{}) for each of them, in order.
template <class... T>
struct type_list {
  static constexpr int size = sizeof...(T);
  template <class Function>
  static constexpr void for_each(Function&& f) {
    (f(T{}), ...);
  }
};

/// Every format of the catalogue: tests, documentation and benchmarks follow from this list.
using all_formats = type_list<e2m1, e4m3, e5m2, bf16, fp16, ue4m3, e8m0>;

}  // namespace loft

#endif
