// SPDX-License-Identifier: Apache-2.0
// encode and decode of arrays. Every number is converted as number/convert.hpp converts one.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/array/random_words.hpp"
#include "loft/core/bits.hpp"
#include "loft/native/host/blocks.hpp"
#include "loft/number/convert.hpp"
#include "loft/number/format.hpp"
#include "loft/number/rounding.hpp"

namespace loft {

/// Sets codes[i] to encode<F, O>(values[i], rounding, first_index + i) for i < count: [count] -> [count].
///
/// in: floats, doubles or minifloats. out: one code each, not packed. A `count` of 0 or below writes nothing.
/// rounds, error, NaN, infinity, -0: as encode of one number.
template <Format F, overflow O = overflow::saturate, Rounding R = nearest_even, EncodeSource T>
LOFT_HOST_DEVICE constexpr void encode(T const* values, std::int64_t count, code<F>* codes, R rounding = {},
                                       std::uint64_t first_index = 0) noexcept {
  constexpr std::int64_t width = detail::has_random_words<R> ? 1024 : 1 << 20;
  for (std::int64_t first = 0; first < count; first += width) {
    int const here = static_cast<int>(detail::min(width, count - first));
    std::uint64_t const index = first_index + static_cast<std::uint64_t>(first);
    detail::rounding_word<R> words[detail::has_random_words<R> ? width : 1];
    detail::fill_rounding_words(rounding, index, here, words);
    int const done = native::encode_run<F, detail::given_rounding<R>, O == overflow::special>(values + first, here,
                                                                                              words, codes + first);
    for (int i = done; i < here; ++i)
      codes[first + i] = encode<F, O>(values[first + i], detail::rounding_at(rounding, words, i),
                                      index + static_cast<std::uint64_t>(i));
  }
}

/// Sets values[i] to decode<F>(codes[i]) for i < count: [count] -> [count]. error: exact, as decode of one code.
template <Format F>
LOFT_HOST_DEVICE constexpr void decode(code<F> const* codes, std::int64_t count, float* values) noexcept {
  constexpr std::int64_t width = 1 << 20;
  for (std::int64_t first = 0; first < count; first += width) {
    int const here = static_cast<int>(detail::min(width, count - first));
    for (int i = native::decode_run<F>(codes + first, here, values + first); i < here; ++i)
      values[first + i] = decode<F>(codes[first + i]);
  }
}

}  // namespace loft
