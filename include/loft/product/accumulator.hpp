// SPDX-License-Identifier: Apache-2.0
// How the sums of an emulated product are formed: the Accumulator concept and its models.
// Source: the order of operations in block-scaled matrix instructions (PTX ISA, tcgen05.mma kind::mxf8f6f4 and
// kind::mxf4nvf4); promotion of FP8 partial sums: DeepSeek-V3, arXiv 2412.19437 section 3.3.2.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"
#include "loft/number/convert.hpp"
#include "loft/number/formats.hpp"

namespace loft {

/// An accumulator says how a product sums over K. K is cut into runs over which the factors of both sides are constant,
/// and a run into chunks of `chunk` terms, 0 for the whole run; the last ones may be short. In order of k:
///   sum = add(sum, product)            for every term of a chunk, from 0; `product` is rounded to `number`
///   run = join(run, sum)               after each chunk of a run that has several, from 0; asked for if chunk > 0
///   total = finish(total, run, factor) after each run, from 0; a run of one chunk passes its sum. `factor` is the
///                                      product of both factors as a double, a NaN where one of them is
/// `number` is float or double, and all of these are pure functions. The total is what the epilogue scales and rounds.
/// Each call is kept apart from the next one, so that a plain a + b is rounded once under any build flags.
template <class A>
concept Accumulator = requires(A const how, typename A::number x, double factor) {
  requires std::is_same_v<typename A::number, float> || std::is_same_v<typename A::number, double>;
  requires A::chunk >= 0;
  { how.add(x, x) } -> std::same_as<typename A::number>;
  { how.finish(x, x, factor) } -> std::same_as<typename A::number>;
  requires A::chunk == 0 || requires {
    { how.join(x, x) } -> std::same_as<typename A::number>;
  };
};

namespace detail {

LOFT_HOST_DEVICE constexpr double widen(double x) noexcept { return x; }

/// A double rounded to the nearest float, into the subnormal ones too whatever the build flushes; beyond the largest
/// one infinity; NaN is the canonical one. Builds that take NaN for impossible see bits between the two fences.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr float narrow(double x) noexcept {
  x = exact::opaque(x);
  auto const bits = bit_cast<std::uint64_t>(x), magnitude = bits << 1 >> 1;
  std::uint32_t word = static_cast<std::uint32_t>(bits >> 32) & float_sign;
  if ((magnitude >> 52) - (1023 - 126) < 254) word = bit_cast<std::uint32_t>(static_cast<float>(x));
  else if (magnitude > double_infinity_bits) word = float_nan;
  else if (magnitude != 0) word = encode<fp32, overflow::special>(x);
  return exact::opaque(bit_cast<float>(word));
}

}  // namespace detail

/// Everything in float, each operation rounded: products, sums, and what a run adds to the total.
struct float_accumulator {
  using number = float;
  static constexpr int chunk = 0;
  LOFT_HOST_DEVICE constexpr float add(float sum, float product) const noexcept { return exact::add(sum, product); }
  LOFT_HOST_DEVICE constexpr float finish(float total, float run, double factor) const noexcept {
    return exact::add(total, detail::narrow(exact::product(detail::widen(run), factor)));
  }
};

/// The same in double: the product of two floats is exact, and so are the sums of a run of elements of 4 and 6 bits.
struct double_accumulator {
  using number = double;
  static constexpr int chunk = 0;
  LOFT_HOST_DEVICE constexpr double add(double sum, double product) const noexcept { return exact::add(sum, product); }
  LOFT_HOST_DEVICE constexpr double finish(double total, double run, double factor) const noexcept {
    return exact::sum(total, exact::product(run, factor));
  }
};

/// What matrix instructions do: the products of `Chunk` terms are summed in double, and sums are added to an
/// accumulator that is rounded to a format after each one. The sum is exact where products of the elements span fewer
/// than 53 - log2(Chunk) bits: elements of 4 and 6 bits, E4M3, E3M4, INT8.
///
/// The chunks of a run add up in F, and the runs, times their factors, in Total; a run of one chunk is not rounded to F
/// first. So for formats of at most Chunk elements a block this is a block-scaled instruction with a Total accumulator,
/// and with Total = fp32 a longer run is a low-precision accumulator that is promoted once a block. rounds: to nearest
/// even; beyond the largest number to the format's infinity, NaN, or that number.
template <Format F, int Chunk, Format Total = F> struct chunked_accumulator {
  static_assert(Chunk >= 1, "chunked_accumulator: a chunk has at least one term");
  using number = double;
  static constexpr int chunk = Chunk;
  LOFT_HOST_DEVICE constexpr double add(double sum, double product) const noexcept { return exact::add(sum, product); }
  LOFT_HOST_DEVICE constexpr double join(double run, double sum) const noexcept {
    return rounded<F>(exact::sum(run, sum));
  }
  LOFT_HOST_DEVICE constexpr double finish(double total, double run, double factor) const noexcept {
    return rounded<Total>(exact::sum(total, exact::product(run, factor)));
  }

 private:
  template <Format G> LOFT_HOST_DEVICE static constexpr double rounded(double x) noexcept {
    return detail::widen(decode<G>(encode<G, overflow::special>(x)));
  }
};

}  // namespace loft
