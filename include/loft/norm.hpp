// SPDX-License-Identifier: Apache-2.0
// The L2 norm of a tensor in an order that every machine can follow to the bit, and its count of non-finite elements.
// Source: design sections 2 and 5; the square of a float is exact in double, so nothing overflows and nothing is lost.
#ifndef LOFT_NORM_HPP
#define LOFT_NORM_HPP

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "loft/bits.hpp"
#include "loft/config.hpp"
#include "loft/native/opaque.hpp"
#include "loft/status.hpp"

namespace loft {

/// The order of a norm's sum. It is part of the result, and fits a vector unit as well as a block of GPU threads.
///
/// Elements come in index order, in chunks. Inside a chunk element i is added to accumulator i % accumulators; every
/// accumulator starts at 0 and takes its elements in index order. Then neighbours are added as a binary tree,
/// a[i] = a[2i] + a[2i+1], until one number is left: the chunk's sum. (A thread that holds 16 neighbours may add those
/// alone, and lanes by exchanges over distances 1, 2, 4, ...: it is the same tree.) The chunks' sums are the elements
/// of the next level and are added by the same rule without squares, level by level, until one number is left. What is
/// missing at an end counts as +0, so a level of one element changes nothing.
namespace norm_order {
inline constexpr int chunk = 16384, accumulators = 2048;
}

/// What one shard of a tensor, on one rank, gives to its norm. Plain doubles that add up: one SUM all-reduce over them
/// is all the communication that a norm needs, and every rank then holds the same numbers.
struct norm_partial {
  double sum_of_squares = 0;  ///< over the finite elements
  double nonfinite = 0;       ///< elements that are NaN or infinite, counted

  LOFT_HOST_DEVICE friend constexpr norm_partial operator+(norm_partial a, norm_partial b) noexcept {
    return {native::sum(a.sum_of_squares, b.sum_of_squares), native::sum(a.nonfinite, b.nonfinite)};
  }
  LOFT_HOST_DEVICE friend constexpr bool operator==(norm_partial const&, norm_partial const&) noexcept = default;
};

namespace detail {

/// The magnitude of an element as float bits. Subnormals survive, whatever the build does to them in arithmetic.
template <class T>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr std::uint32_t norm_bits(T const& x) noexcept {
  static_assert(std::is_same_v<T, float> || !std::is_arithmetic_v<T>,
                "a norm is taken of floats, or of numbers that are floats exactly: double and integers are not");
  return magnitude_bits(static_cast<float>(x));
}

/// The square of an element given by norm_bits, exact; 0 for NaN and infinity.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr double norm_square(std::uint32_t bits) noexcept {
  auto const kept_if = [bits](bool yes) { return bits & (0u - static_cast<std::uint32_t>(yes)); };  // no branch
  std::uint32_t const normal = kept_if(bits - float_least_normal < float_infinity - float_least_normal);
  std::uint32_t const subnormal = kept_if(bits < float_least_normal);
  double const value = static_cast<double>(bit_cast<float>(normal)) +
                       static_cast<double>(static_cast<std::int32_t>(subnormal)) * 0x1p-149;  // one of the two is 0
  return value * value;
}

/// The sum of N numbers as a tree by neighbours. N: a power of two.
template <int N>
LOFT_HOST_DEVICE constexpr double norm_tree(double (&values)[N]) noexcept {
  static_assert(N > 0 && (N & (N - 1)) == 0, "the tree is over a power of two of numbers");
  if constexpr (N == 1) {
    return values[0];
  } else {
    native::settle(values);
    double halves[N / 2];
    for (int i = 0; i < N / 2; ++i) halves[i] = values[2 * i] + values[2 * i + 1];
    return norm_tree(halves);
  }
}

// Source: a pointer, or what is added to and indexed like one.

/// The sum of a whole chunk's squares, or nothing where an element is subnormal, NaN or infinite. A run of accumulators
/// stays in registers and caches while it takes its elements; its tree is a branch of the chunk's.
template <class Source>
LOFT_HOST_DEVICE constexpr bool norm_of_plain_chunk(Source values, double& result) noexcept {
  constexpr int run = 128, step = norm_order::accumulators;
  double sums[step / run] = {};
  std::uint32_t least = ~0u, largest = 0;  // of the magnitudes less one, where 0 is the largest; of the magnitudes
  for (int first = 0; first < step; first += run) {
    double lanes[run] = {};
    for (int from = first; from < norm_order::chunk; from += step) {
      std::uint32_t magnitudes[run];
      for (int i = 0; i < run; ++i) magnitudes[i] = norm_bits(values[from + i]);
      for (int i = 0; i < run; ++i) {
        std::uint32_t const bits = magnitudes[i];
        double const value = static_cast<double>(bit_cast<float>(bits));
        lanes[i] += value * value;
        least = min(least, bits - 1);
        largest = max(largest, bits);
      }
      native::settle(lanes);
    }
    sums[first / run] = norm_tree(lanes);
  }
  result = norm_tree(sums);
  return least >= float_least_normal - 1 && largest < float_infinity;
}

/// The sum of one chunk's squares, whatever its elements; counts what is not finite. count: up to norm_order::chunk.
template <class Source>
LOFT_HOST_DEVICE constexpr double norm_of_chunk(Source values, int count, std::int64_t& nonfinite) noexcept {
  double result = 0;
  if (count == norm_order::chunk && norm_of_plain_chunk(values, result)) return result;
  double sums[norm_order::accumulators] = {};
  for (int first = 0; first < count; first += norm_order::accumulators) {
    std::int32_t found = 0;
    for (int i = 0; i < min(norm_order::accumulators, count - first); ++i) {
      std::uint32_t const bits = norm_bits(values[first + i]);
      sums[i] += norm_square(bits);
      found += bits >= float_infinity ? 1 : 0;
    }
    native::settle(sums);
    nonfinite += found;
  }
  return norm_tree(sums);
}

/// The sum over one chunk of a level whose elements are sums over `unit` elements of the tensor; unit 1: its elements.
template <class Source>
LOFT_HOST_DEVICE constexpr double norm_of_level(Source values, std::int64_t count, std::int64_t unit,
                                                std::int64_t& nonfinite) noexcept {
  if (unit == 1) return norm_of_chunk(values, static_cast<int>(count), nonfinite);
  double sums[norm_order::accumulators] = {};
  std::int64_t const below = unit / norm_order::chunk;
  for (std::int64_t i = 0; i < ceil_div(count, unit); ++i) {
    double& sum = sums[i % norm_order::accumulators];
    sum = native::sum(sum, norm_of_level(values + i * unit, min(unit, count - i * unit), below, nonfinite));
  }
  return norm_tree(sums);
}

template <class Source>
LOFT_HOST_DEVICE constexpr norm_partial partial_of(Source values, std::int64_t count) noexcept {
  if (count <= 0) return {};
  std::int64_t unit = 1, nonfinite = 0;
  while (ceil_div(count, unit) > norm_order::chunk) unit *= norm_order::chunk;
  double const sum = norm_of_level(values, count, unit, nonfinite);
  return {sum, static_cast<double>(nonfinite)};
}

}  // namespace detail

/// What a run of numbers gives to a norm: `count` of them from `values`; none where count is 0 or below.
///
/// in: floats, or numbers that are floats exactly (minifloats). error: each addition is rounded once in double, in the
/// order of norm_order; the squares are exact. NaN and infinity are counted and left out; -0 is 0.
template <class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr norm_partial partial_norm(T const* values, std::int64_t count) noexcept {
  return detail::partial_of(values, count);
}

/// The norm that partials, added up over shards and ranks, come to: infinite where an element was not finite.
///
/// error: rounded once from the sum of squares. A sum that is NaN or negative, which no addition of partials gives, is
/// infinite too.
[[nodiscard]] LOFT_HOST_DEVICE inline double norm_of(norm_partial p) noexcept {
  std::uint64_t const bits = bit_cast<std::uint64_t>(p.sum_of_squares);
  bool const counted = bit_cast<std::uint64_t>(p.nonfinite) << 1 != 0;
  if (counted || bits >= detail::double_infinity_bits) return bit_cast<double>(detail::double_infinity_bits);
  return native::square_root(p.sum_of_squares);
}

/// What to multiply a gradient with so that its norm is at most `limit` > 0: min(1, limit / norm). 1 for a norm that is
/// not finite: no factor mends such a gradient, and 0 would hide it. error: rounded once.
[[nodiscard]] LOFT_HOST_DEVICE constexpr double clip_factor(double norm, double limit) noexcept {
  bool const finite = bit_cast<std::uint64_t>(norm) < detail::double_infinity_bits;
  return finite && norm > limit ? native::quotient(limit, norm) : 1.0;
}

/// A run of numbers in somebody's memory: one tensor, or one part of a sharded one.
template <class T>
struct norm_input {
  T const* values;
  std::int64_t count;
};

/// One partial for each tensor of a list. A mistake is found before the first write.
template <class T>
[[nodiscard]] constexpr status partial_norms(std::span<norm_input<T> const> tensors,
                                             std::span<norm_partial> out) noexcept {
  if (tensors.size() != out.size()) return status::norm_count_mismatch;
  for (auto const& t : tensors) {
    if (t.count < 0) return status::negative_extent;
    if (t.count > 0 && t.values == nullptr) return status::null_pointer;
  }
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = partial_norm(tensors[i].values, tensors[i].count);
  return status::ok;
}

/// One norm for each partial.
[[nodiscard]] inline status norms_of(std::span<norm_partial const> partials, std::span<double> out) noexcept {
  if (partials.size() != out.size()) return status::norm_count_mismatch;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = norm_of(partials[i]);
  return status::ok;
}

}  // namespace loft

#endif
