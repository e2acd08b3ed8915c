// SPDX-License-Identifier: Apache-2.0
// A small program for every compiler and flag set: the frozen codes, and encode against its branch-free form, without
// exceptions, RTTI or a test framework. It fails with a status other than 0.
#include <cstdio>

#include "block/golden_blocks.hpp"

namespace {

// Floats whose encode and decode are compared with their forms for vectors, by bits.
template <class F> long lane_mismatches() {
  long count = 0;
  if constexpr (loft::detail::has_float_layout<F> && F::spec.has_zero && F::spec.is_signed &&
                F::spec.mantissa_bits < 23) {
    for (std::uint64_t p = 0; p < std::uint64_t{1} << 32; p += 99991) {
      if ((p & 0x7f800000u) == 0x7f800000u) continue;
      float const x = loft::bit_cast<float>(static_cast<std::uint32_t>(p));
      count += loft::detail::encode_branchless<F>(x, 0, loft::nearest_even{}, p) != loft::encode<F>(x);
      count += loft::detail::encode_branchless<F>(x, 0, loft::stochastic<16>{1, 2}, p) !=
               loft::encode<F>(x, loft::stochastic<16>{1, 2}, p);
    }
    if constexpr (loft::detail::has_branchless_decode<F>) {
      for (std::uint32_t c = 0; c < 1u << F::spec.bits(); ++c) {
        auto const code = static_cast<loft::code<F>>(c);
        count += loft::bit_cast<std::uint32_t>(loft::detail::decode_branchless<F>(code)) !=
                 loft::bit_cast<std::uint32_t>(loft::decode<F>(code));
      }
    }
  }
  return count;
}

}  // namespace

int main() {
  int failures = 0;
  std::string const frozen = test::read_golden("all_blocks.txt"), got = test::golden_blocks();
  if (frozen.size() < 10000 || got != frozen) {
    std::printf("codes differ from the frozen ones: %s\n", test::first_difference(got, frozen).c_str());
    ++failures;
  }
  long lanes = 0;
  loft::all_formats::for_each([&]<class F>(F) { lanes += lane_mismatches<F>(); });
  if (lanes != 0) std::printf("%ld codes of the branch-free forms differ\n", lanes), ++failures;
  // NaN is found by bits, also where the compiler takes NaNs for impossible.
  float const volatile nan = loft::bit_cast<float>(0x7fc00000u);
  if (loft::encode<loft::e4m3>(float{nan}) != 0x7f || loft::e4m3_t{float{nan}} == loft::e4m3_t{float{nan}})
    std::printf("a NaN is not seen\n"), ++failures;
  // The control: a text that is not the frozen one is told apart.
  if (got == frozen + " ") ++failures;
  std::printf("%zu bytes of codes compared, %d failures\n", got.size(), failures);
  return failures == 0 ? 0 : 1;
}
