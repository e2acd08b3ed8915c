// SPDX-License-Identifier: Apache-2.0
// Codes in bytes: code i of a row takes the bits [i * width, (i + 1) * width) of the row, low bits first, so that
// element 2i of a 4-bit format is the low nibble of byte i. Source: OCP MX 1.0 leaves the order open; design decision
// 12.
#pragma once

#include <cstdint>

#include "loft/core/bits.hpp"
#include "loft/native/host/nibbles.hpp"
#include "loft/number/format.hpp"

namespace loft {

/// The bytes that a row of `count` codes takes.
template <Format F> LOFT_HOST_DEVICE constexpr std::int64_t packed_bytes(std::int64_t count) noexcept {
  constexpr int width = F::spec.bits();
  return detail::ceil_div(count * width, 8);
}

/// Writes `count` codes to the front of packed_bytes<F>(count) bytes; padding bits at the end are zero.
/// in: codes of F, one each. out: bytes, at any address. error: exact.
template <Format F>
LOFT_HOST_DEVICE constexpr void pack(code<F> const* codes, std::int64_t count, std::uint8_t* bytes) noexcept {
  constexpr int width = F::spec.bits();
  if constexpr (width == 8) {
    for (std::int64_t i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>(codes[i]);
  } else if constexpr (width == 4) {
    std::int64_t i = native::pack_nibbles(codes, count, bytes);
    for (; i + 1 < count; i += 2)
      bytes[i / 2] = static_cast<std::uint8_t>((codes[i] & 15u) | (codes[i + 1] & 15u) << 4);
    if (count % 2 != 0) bytes[count / 2] = static_cast<std::uint8_t>(codes[count - 1] & 15u);
  } else {
    std::uint32_t pending = 0;  // bits that do not fill a byte yet
    int pending_bits = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      pending |= (codes[i] & ((1u << width) - 1)) << pending_bits;
      for (pending_bits += width; pending_bits >= 8; pending_bits -= 8, pending >>= 8)
        *bytes++ = static_cast<std::uint8_t>(pending);
    }
    if (pending_bits > 0) *bytes = static_cast<std::uint8_t>(pending);
  }
}

/// Reads `count` codes from the front of packed_bytes<F>(count) bytes. The inverse of `pack`.
template <Format F>
LOFT_HOST_DEVICE constexpr void unpack(std::uint8_t const* bytes, std::int64_t count, code<F>* codes) noexcept {
  constexpr int width = F::spec.bits();
  if constexpr (width == 8) {
    for (std::int64_t i = 0; i < count; ++i) codes[i] = static_cast<code<F>>(bytes[i]);
  } else if constexpr (width == 4) {
    std::int64_t i = native::unpack_nibbles(bytes, count, codes);
    for (; i + 1 < count; i += 2) {
      codes[i] = static_cast<code<F>>(bytes[i / 2] & 15u);
      codes[i + 1] = static_cast<code<F>>(bytes[i / 2] >> 4);
    }
    if (count % 2 != 0) codes[count - 1] = static_cast<code<F>>(bytes[count / 2] & 15u);
  } else {
    std::uint32_t pending = 0;
    int pending_bits = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      for (; pending_bits < width; pending_bits += 8) pending |= static_cast<std::uint32_t>(*bytes++) << pending_bits;
      codes[i] = static_cast<code<F>>(pending & ((1u << width) - 1));
      pending >>= width;
      pending_bits -= width;
    }
  }
}

}  // namespace loft
