// SPDX-License-Identifier: Apache-2.0
// encode and decode without branches, in 32-bit lanes, the form that compilers vectorise, and random words for whole
// runs. Source: convert.hpp and random.hpp, whose steps these are; tests/array/array_test.cpp compares them over whole
// domains.
#ifndef LOFT_ARRAY_BRANCHLESS_HPP
#define LOFT_ARRAY_BRANCHLESS_HPP

#include <cstdint>
#include <type_traits>

#include "loft/core/bits.hpp"
#include "loft/core/config.hpp"
#include "loft/core/exact.hpp"
#include "loft/native/gpu/cuda.hpp"
#include "loft/native/gpu/hip.hpp"
#include "loft/native/host/runs.hpp"
#include "loft/number/convert.hpp"
#include "loft/number/format.hpp"
#include "loft/number/random.hpp"
#include "loft/number/rounding.hpp"

namespace loft::detail {

/// f(0), f(1), ..., f(count - 1). The usual count, N, is a constant to the compiler.
template <int N, class Function>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr void for_each_index(int count, Function&& f) noexcept {
  if (count == N) {
    if constexpr (native::unrolls_runs && N <= 32) {
      native::unrolled<N>(f);
    } else {
      for (int i = 0; i < N; ++i) f(i);
    }
  } else {
    for (int i = 0; i < count; ++i) f(i);
  }
}

/// The formats whose numbers are laid out like a float's, so that a lane of 32 bits finds a code without a table.
template <Format F>
inline constexpr bool has_float_layout = std::is_same_v<std::remove_cv_t<decltype(F::spec)>, format_spec>;
/// Of these, the ones whose values are all normal floats.
template <Format F>
inline constexpr bool has_branchless_decode = requires {
  requires has_float_layout<F> && F::spec.min_exponent() - F::spec.mantissa_bits >= -126;
};

/// True where encode_branchless serves elements of F rounded by R: numbers with signs, and a fraction of 32 bits.
template <Format F, class R>
inline constexpr bool has_branchless_encode = has_float_layout<F>&& requires {
  requires F::spec.is_signed&& F::spec.has_zero&& F::spec.mantissa_bits < 23;
}
&&sizeof(typename fraction_word<R, float>::type) == 4;

/// The least `scale` for which encode_branchless needs no float subnormal normalised: at and above it they lie below F's
/// normals.
template <Format F>
inline constexpr int least_branchless_scale = -126 - F::spec.min_exponent();

/// encode_scaled<F, overflow::saturate>(value, scale, ...) for a value that is not NaN and a scale of at least
/// least_branchless_scale<F>.
template <Format F, Rounding R>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr code<F> encode_branchless(float value, int scale, R const& rounding,
                                                                            std::uint64_t index) noexcept {
  constexpr auto spec = F::spec;
  constexpr int mantissa_bits = spec.mantissa_bits;
  auto const bits = bit_cast<std::uint32_t>(value);
  std::uint32_t const magnitude = bits & ~float_sign;
  bool const negative = bits != magnitude;
  // A subnormal float counts in the exponent of the least normal one, without the hidden bit; infinity is 2^128.
  int const field = static_cast<int>(magnitude >> 23);
  std::uint32_t const significand = (magnitude & 0x7f'ffffu) | (field != 0 ? 0x80'0000u : 0u);
  int const above = max(field, 1) - 127 - scale - spec.min_exponent();
  int const dropped = 23 - mantissa_bits + max(-above, 0);
  std::uint32_t kept = 0, fraction = 0;
  if constexpr (requires { R::bits; }) {
    // A random word is compared with the fraction itself, however small it is.
    int const near = min(dropped, 31), far = clamp(dropped - 32, 0, 31);
    kept = significand >> near;
    fraction = dropped < 32 ? significand << (32 - near) : (significand >> far) | (significand != 0 ? 1u : 0u);
  } else {
    // Below a quarter of the gap all values round alike, zero apart.
    int const near = min(dropped, 25);
    kept = significand >> near;
    fraction = significand << (32 - near);
  }
  std::uint32_t const lower = (static_cast<std::uint32_t>(max(above, 0)) << mantissa_bits) + kept;
  std::uint32_t const up = rounding.up(lower, fraction, negative, index) ? 1u : 0u;
  return with_sign<F>(min(lower + up, spec.max_code()), negative);
}

/// decode<F>(c) where has_branchless_decode<F>.
template <Format F>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr float decode_branchless(code<F> c) noexcept {
  constexpr auto spec = F::spec;
  constexpr int shift = 23 - spec.mantissa_bits;
  constexpr std::uint32_t rebias = static_cast<std::uint32_t>(127 - spec.bias) << 23;
  bool const negative = (c & spec.sign_mask()) != 0;
  std::uint32_t magnitude = c & spec.magnitude_mask();
  if constexpr (spec.twos_complement) magnitude = negative ? spec.sign_mask() - magnitude : magnitude;
  std::uint32_t const moved = (magnitude << shift) + rebias;
  bool const subnormal = spec.has_zero && magnitude < 1u << spec.mantissa_bits;
  float const value =
      bit_cast<float>(moved + (subnormal ? 1u << 23 : 0u)) - (subnormal ? power_of_two(spec.min_exponent()) : 0.0f);
  std::uint32_t bits = bit_cast<std::uint32_t>(value);
  if constexpr (spec.has_infinity()) bits = magnitude == spec.infinity_code() ? float_infinity : bits;
  bits |= negative ? float_sign : 0u;
  if constexpr (spec.has_nan()) bits = spec.is_nan(c) ? float_nan : bits;
  return bit_cast<float>(bits);
}

/// decode<F>(c), without branches where F allows it.
template <Format F>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr float decode_number(code<F> c) noexcept {
  if constexpr (has_branchless_decode<F>) return decode_branchless<F>(c);
  else return decode<F>(c);
}

/// The rounding of one element of a run whose random words are drawn already.
template <class R>
struct given_rounding {
  using type = R;
};
template <class R>
  requires requires { typename R::given_word; }
struct given_rounding<R> {
  using type = typename R::given_word;
};

/// True for the roundings that look at a random word for each element: their words can be laid out for many at once.
template <class R>
inline constexpr bool has_random_words = requires {
  R::bits;
};

/// What holds the random word of one element.
template <class R>
struct rounding_word {
  using type = std::uint8_t;
};
template <class R>
  requires has_random_words<R>
struct rounding_word<R> {
  using type = code_word<R::bits>;
};

/// The rounds of a generator that the host's registers know, else 0.
template <class G>
inline constexpr int philox_rounds = 0;
template <int Rounds>
inline constexpr int philox_rounds<philox4x32<Rounds>> = Rounds;

/// words[i] = random_bits<Bits, G>(seed, stream, index + i) for i < count, with one call of the generator for all its
/// slots.
template <int Bits, class G>
LOFT_HOST_DEVICE constexpr void fill_random_words(std::uint64_t seed, std::uint64_t stream, std::uint64_t index,
                                                  int count, code_word<Bits>* words) noexcept {
  constexpr int slots = 128 / Bits, per_word = 32 / Bits;
  constexpr auto mask = static_cast<std::uint32_t>((std::uint64_t{1} << Bits) - 1);
  int slot = static_cast<int>(index % slots);
  std::uint64_t call = index / slots;
  for (int i = 0; i < count; slot = 0, ++call) {
    // Words of whole bytes are the bytes of the calls as they come.
    if constexpr (Bits >= 8 && philox_rounds < G >> 0) {
      if (slot == 0) {
        int const calls = native::philox_calls<philox_rounds<G>>(seed, stream, call, (count - i) / slots, words + i);
        call += static_cast<std::uint64_t>(calls);
        i += calls * slots;
        if (i == count) return;
      }
    }
    u32x4 const random = counter_words<G>(seed, stream, call);
    std::uint32_t const parts[4] = {random.x, random.y, random.z, random.w};
    for (; slot < slots && i < count; ++slot, ++i)
      words[i] = static_cast<code_word<Bits>>((parts[slot / per_word] >> (slot % per_word * Bits)) & mask);
  }
}

/// The words of `count` elements, where R takes words.
template <class R>
LOFT_HOST_DEVICE constexpr void fill_rounding_words([[maybe_unused]] R const& rounding,
                                                    [[maybe_unused]] std::uint64_t index, [[maybe_unused]] int count,
                                                    [[maybe_unused]] typename rounding_word<R>::type* words) noexcept {
  if constexpr (requires { typename R::given_word; }) {
    fill_random_words<R::bits, typename R::generator>(rounding.seed, rounding.stream, index, count, words);
  } else if constexpr (requires { rounding.word; }) {
    constexpr auto mask = static_cast<std::uint32_t>((std::uint64_t{1} << R::bits) - 1);
    for (int i = 0; i < count; ++i) words[i] = static_cast<typename rounding_word<R>::type>(rounding.word & mask);
  }
}

/// The rounding of element i of those whose words these are.
template <class R, class W>
LOFT_HOST_DEVICE constexpr auto rounding_at([[maybe_unused]] R const& rounding, [[maybe_unused]] W const* words,
                                            [[maybe_unused]] int i) noexcept {
  if constexpr (requires { typename R::given_word; }) return typename R::given_word{words[i]};
  else return rounding;
}

}  // namespace loft::detail

#endif
