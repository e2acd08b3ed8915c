// SPDX-License-Identifier: Apache-2.0
// Packs codes of 4 bits in the host's vector registers. array/packing.hpp says where each code goes.
#pragma once

#include <cstdint>

#include "loft/core/bits.hpp"
#include "loft/native/host/vectors.hpp"

namespace loft::native {

/// Packs the first of `count` codes of 4 bits, as many as fill whole registers, with element 2i in the low nibble of
/// byte i; and unpacks them. Returns how many codes were done: 0 where vectors are not to be had.
LOFT_HOST_DEVICE constexpr std::int64_t pack_nibbles([[maybe_unused]] std::uint8_t const* codes,
                                                     [[maybe_unused]] std::int64_t count,
                                                     [[maybe_unused]] std::uint8_t* bytes) noexcept {
#if LOFT_HAS_HOST_VECTORS
  if (constant_evaluated()) return 0;
  using pairs = vector<std::uint16_t, lanes>::type;
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    pairs const both = load<pairs>(codes + i) & 0x0f0f;
    store(bytes + i / 2, __builtin_convertvector(both | (both >> 4), u8s));
  }
  return i;
#else
  return 0;
#endif
}
LOFT_HOST_DEVICE constexpr std::int64_t unpack_nibbles([[maybe_unused]] std::uint8_t const* bytes,
                                                       [[maybe_unused]] std::int64_t count,
                                                       [[maybe_unused]] std::uint8_t* codes) noexcept {
#if LOFT_HAS_HOST_VECTORS
  if (constant_evaluated()) return 0;
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    u16s const both = __builtin_convertvector(load<u8s>(bytes + i / 2), u16s);
    store(codes + i, (both & 0x0f) | ((both & 0xf0) << 4));
  }
  return i;
#else
  return 0;
#endif
}

}  // namespace loft::native
