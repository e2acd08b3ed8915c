// SPDX-License-Identifier: Apache-2.0
// The catalogue of formats, and all_formats, the list of them. A format is added here and nowhere else.
// Source: OCP MX 1.0 (e2m1, e2m3, e3m2, e8m0, int8_over_64), OCP OFP8 1.0 (e4m3, e5m2), IEEE 754-2019 (fp16, fp32);
// each other line says its own.
#pragma once

#include "loft/number/format.hpp"

namespace loft {

// clang-format off
// Each value is exponent bits, mantissa bits, bias, then what differs from a signed format whose codes are all finite.

// Elements of 4 and 6 bits: no infinity, no NaN.
struct e1m2 { static constexpr format_spec spec{1, 2, 1}; };                                 // 0 .25 ... 1.75
struct e2m1 { static constexpr format_spec spec{2, 1, 1}; };                                 // 0 .5 1 1.5 2 3 4 6
struct e2m3 { static constexpr format_spec spec{2, 3, 1}; };                                 // max 7.5
struct e3m2 { static constexpr format_spec spec{3, 2, 3}; };                                 // max 28

// Elements without a sign, for numbers that are never negative: see train/second_moment.hpp.
struct ue3m1 { static constexpr format_spec spec{3, 1, 3, specials::none, false}; };         // max 24

// Elements of 8 and 16 bits. E3M4 and the FNUZ pair: Noune et al., arXiv 2206.02915, and the ml_dtypes package.
struct e3m4 { static constexpr format_spec spec{3, 4, 3, specials::ieee}; };                 // max 15.5
struct e4m3 { static constexpr format_spec spec{4, 3, 7, specials::nan}; };                  // max 448
struct e5m2 { static constexpr format_spec spec{5, 2, 15, specials::ieee}; };                // max 57344
struct e4m3fnuz { static constexpr format_spec spec{4, 3, 8, specials::fnuz}; };             // max 240
struct e5m2fnuz { static constexpr format_spec spec{5, 2, 16, specials::fnuz}; };            // max 57344
struct hifloat8 { static constexpr hifloat8_spec spec{}; };                                  // max 2^15, tapered
struct bf16 { static constexpr format_spec spec{8, 7, 127, specials::ieee}; };               // the upper half of a float
struct fp16 { static constexpr format_spec spec{5, 10, 15, specials::ieee}; };               // binary16
struct fp32 { static constexpr format_spec spec{8, 23, 127, specials::ieee}; };              // binary32

// Symmetric two's complement integers: with one exponent bit, all gaps are equal. int8_over_64, MXINT8's element, is
// the same in units of 1/64.
struct int4 { static constexpr format_spec spec{1, 2, -1, specials::none, true, true, true}; };  // -7 ... 7
struct int6 { static constexpr format_spec spec{1, 4, -3, specials::none, true, true, true}; };  // -31 ... 31
struct int8 { static constexpr format_spec spec{1, 6, -5, specials::none, true, true, true}; };  // -127 ... 127
struct int8_over_64 { static constexpr format_spec spec{1, 6, 1, specials::none, true, true, true}; };  // -127/64 ... 127/64

// Scales: unsigned. e8m0 and e6m2 have neither zero nor subnormals: code 0 of e8m0 is 2^-127, of e6m2 2^-48.
struct ue4m3 { static constexpr format_spec spec{4, 3, 7, specials::nan, false}; };          // NVFP4's block scale
struct ue5m3 { static constexpr format_spec spec{5, 3, 15, specials::nan, false}; };         // max 114688
struct ue5m3_ieee { static constexpr format_spec spec{5, 3, 15, specials::ieee, false}; };   // top exponent reserved, 61440
struct e6m2 { static constexpr format_spec spec{6, 2, 48, specials::nan, false, false}; };   // HiF4's first level
struct e8m0 { static constexpr format_spec spec{8, 0, 127, specials::nan, false, false}; };  // MX's block scale

// clang-format on

/// The formats of IEEE P3109: K bits, a precision of P bits (the mantissa and the hidden bit), signed or not, with
/// infinity or without; binary8p3 is p3109<8, 3>. source: IEEE SA P3109 Interim Report, sections on value sets.
template <int K, int P, bool Signed = true, bool Extended = true> struct p3109 {
  static_assert(K >= 2 && K <= 8 && P >= 1 && P <= K - (Signed ? 1 : 0),
                "p3109: 2 <= K <= 8 and 1 <= P < K (unsigned: P <= K)");
  static constexpr int exponent_bits = K - P + (Signed ? 0 : 1);
  static constexpr format_spec spec{exponent_bits, P - 1, (1 << exponent_bits) / 2,
                                    Extended ? specials::extended : (Signed ? specials::fnuz : specials::nan), Signed};
};

/// A list of types; `for_each` calls f(T{}) for each of them, in order.
template <class... T> struct type_list {
  static constexpr int size = sizeof...(T);
  template <class Function> static constexpr void for_each(Function&& f) { (f(T{}), ...); }
};

/// Every format of the catalogue. Tests, documentation and benchmarks follow from this list.
using all_formats =
    type_list<e1m2, e2m1, e2m3, e3m2, ue3m1, e3m4, e4m3, e5m2, e4m3fnuz, e5m2fnuz, hifloat8, bf16, fp16, fp32, int4,
              int6, int8, int8_over_64, ue4m3, ue5m3, ue5m3_ieee, e6m2, e8m0, p3109<8, 1>, p3109<8, 3>,
              p3109<8, 4, true, false>, p3109<8, 4, false>, p3109<6, 3>, p3109<4, 2, true, false>, p3109<8, 1, false>>;

}  // namespace loft
