// SPDX-License-Identifier: Apache-2.0
// from_vendor and to_vendor: the storage types of CUDA and HIP as minifloats and back, bit for bit. The tables are in
// cuda_types.hpp and hip_types.hpp.
// Source: the layouts of the vendors' headers: element 0 in the low bits; 4-bit numbers two a byte, 6-bit numbers one a
// byte.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/array/packing.hpp"
#include "loft/core/bits.hpp"
#include "loft/number/formats.hpp"
#include "loft/number/minifloat.hpp"

// Both vendors use this name, for types of their own that never meet in one program.
struct __half;

namespace loft {

/// What a vendor's type V holds, a `holds`: one line for each type is all that is written of it. No other type has one.
/// Pairs of 16-bit numbers are left out: the vendors gave them copy constructors, so their bits cannot be cast.
template <Format F, int N = 1> struct holds {
  using format = F;
  static constexpr int count = N;
};
/// All other types: they are of no vendor.
struct holds_nothing {};
/// What V holds, by its type: specialised once for each type of a vendor.
template <class V> inline constexpr holds_nothing vendor_type{};

template <> inline constexpr holds<fp16> vendor_type<__half>{};

/// A type of a vendor that has a line of its own.
template <class V>
concept VendorType = requires {
  vendor_type<V>.count;
};

namespace detail {

template <class V> using vendor_format = typename decltype(vendor_type<V>)::format;
template <class V> inline constexpr int vendor_count = decltype(vendor_type<V>)::count;

template <class V> struct vendor_bytes { std::uint8_t at[sizeof(V)]; };

/// Whether the numbers of V stand in it without gaps; else each has a byte of its own.
template <class V> inline constexpr bool vendor_packs = vendor_format<V>::spec.bits() * vendor_count<V> == word_bits<V>;

}  // namespace detail

/// N numbers of a format, in the order of the vendor's fields: x, y, z, w.
template <Format F, int N> struct minifloats {
  minifloat<F> values[N];

  LOFT_HOST_DEVICE constexpr minifloat<F>& operator[](int i) noexcept { return values[i]; }
  LOFT_HOST_DEVICE constexpr minifloat<F> operator[](int i) const noexcept { return values[i]; }
};

/// What LOFT has in the place of V: a minifloat, or for vectors a minifloats.
template <VendorType V>
using loft_type = std::conditional_t<detail::vendor_count<V> == 1, minifloat<detail::vendor_format<V>>,
                                     minifloats<detail::vendor_format<V>, detail::vendor_count<V>>>;

/// The numbers that a vendor's value holds. Bits of a byte that no number uses are dropped. error: exact, NaN bits
/// included.
template <VendorType V> LOFT_HOST_DEVICE constexpr loft_type<V> from_vendor(V const& v) noexcept {
  using format = detail::vendor_format<V>;
  constexpr int count = detail::vendor_count<V>;
  constexpr std::uint32_t mask = format::spec.sign_mask() | format::spec.magnitude_mask();
  static_assert(detail::vendor_packs<V> || sizeof(V) == count,
                "from_vendor: the type is not laid out as its table entry says");
  auto const bytes = bit_cast<detail::vendor_bytes<V>>(v);
  code<format> codes[count] = {};
  if constexpr (detail::vendor_packs<V>) {
    unpack<format>(bytes.at, count, codes);
  } else {
    for (int i = 0; i < count; ++i) codes[i] = static_cast<code<format>>(bytes.at[i] & mask);
  }
  if constexpr (count == 1) {
    return minifloat<format>::from_bits(codes[0]);
  } else {
    minifloats<format, count> result{};
    for (int i = 0; i < count; ++i) result[i] = minifloat<format>::from_bits(codes[i]);
    return result;
  }
}

/// The vendor's value that holds these numbers; bits of a byte that no number uses are 0. error: exact, NaN bits
/// included.
template <VendorType V> LOFT_HOST_DEVICE constexpr V to_vendor(loft_type<V> const& x) noexcept {
  using format = detail::vendor_format<V>;
  constexpr int count = detail::vendor_count<V>;
  static_assert(detail::vendor_packs<V> || sizeof(V) == count,
                "to_vendor: the type is not laid out as its table entry says");
  code<format> codes[count] = {};
  if constexpr (count == 1) {
    codes[0] = x.bits();
  } else {
    for (int i = 0; i < count; ++i) codes[i] = x[i].bits();
  }
  detail::vendor_bytes<V> bytes{};
  if constexpr (detail::vendor_packs<V>) {
    pack<format>(codes, count, bytes.at);
  } else {
    for (int i = 0; i < count; ++i) bytes.at[i] = static_cast<std::uint8_t>(codes[i]);
  }
  return bit_cast<V>(bytes);
}

}  // namespace loft
