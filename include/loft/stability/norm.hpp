// SPDX-License-Identifier: Apache-2.0
// The L2 norm of a tensor, summed in an order that gives every machine the same bits, and its count of non-finite
// elements. Source: design sections 2 and 5. The square of a float is exact in double, so that no square overflows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"
#include "loft/core/status.hpp"

namespace loft {

/// The order of a norm's sum, which is part of the result. It suits the host's vectors as well as the lanes of a GPU.
///
/// Elements are taken in index order, in chunks. Inside a chunk element i is added to accumulator
/// (i / 16 % 32) * 8 + i % 8; every accumulator starts at 0 and takes its elements in index order. The accumulators of
/// all chunks, those of one chunk after those of another, are then added as one binary tree of neighbours,
/// a[i] = a[2i] + a[2i+1], until one number is left. What is missing at the end counts as +0.
///
/// So a lane with 16 neighbouring elements has eight accumulators and their branch of the tree, 32 lanes have a chunk,
/// and any 2^k chunks that start at a multiple of 2^k can be added on their own.
namespace norm_order {
inline constexpr int chunk = 4096;        ///< elements whose accumulators are apart from those of others
inline constexpr int accumulators = 256;  ///< of a chunk
inline constexpr int neighbours = 16;     ///< elements in a row that one lane holds
}  // namespace norm_order

/// What one shard of a tensor, on one rank, adds to the tensor's norm. It consists of doubles that add up: after one
/// SUM all-reduce over them every rank holds the same numbers.
struct norm_partial {
  double sum_of_squares = 0;  ///< over the finite elements
  double nonfinite = 0;       ///< elements that are NaN or infinite, counted

  LOFT_HOST_DEVICE friend constexpr norm_partial operator+(norm_partial a, norm_partial b) noexcept {
    return {exact::sum(a.sum_of_squares, b.sum_of_squares), exact::sum(a.nonfinite, b.nonfinite)};
  }
  LOFT_HOST_DEVICE friend constexpr bool operator==(norm_partial const&, norm_partial const&) noexcept = default;
};

namespace detail {

/// The magnitude of an element as bits of a float. Subnormals are kept in builds whose arithmetic flushes them, too.
template <class T> [[gnu::always_inline]] LOFT_HOST_DEVICE constexpr std::uint32_t norm_bits(T const& x) noexcept {
  static_assert(std::is_same_v<T, float> || !std::is_arithmetic_v<T>,
                "a norm is taken of floats, or of numbers that are floats exactly: double and integers are not");
  return magnitude_bits(static_cast<float>(x));
}

/// The exact square of the element whose norm_bits these are; 0 for NaN and infinity.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr double norm_square(std::uint32_t bits) noexcept {
  auto const kept_if = [bits](bool yes) { return bits & (0u - static_cast<std::uint32_t>(yes)); };  // no branch
  std::uint32_t const normal = kept_if(bits - float_least_normal < float_infinity - float_least_normal);
  std::uint32_t const subnormal = kept_if(bits < float_least_normal);
  double const value = static_cast<double>(bit_cast<float>(normal)) +
                       static_cast<double>(static_cast<std::int32_t>(subnormal)) * 0x1p-149;  // one of the two is 0
  return value * value;
}

/// The sum of N numbers as a tree of neighbours. N: a power of two.
template <int N> LOFT_HOST_DEVICE constexpr double norm_tree(double (&values)[N]) noexcept {
  static_assert(N > 0 && (N & (N - 1)) == 0, "the tree is over a power of two of numbers");
  if constexpr (N == 1) {
    return values[0];
  } else {
    exact::settle(values);
    double halves[N / 2];
    for (int i = 0; i < N / 2; ++i) halves[i] = values[2 * i] + values[2 * i + 1];
    return norm_tree(halves);
  }
}

/// A round: the elements after which every accumulator has taken two.
inline constexpr int norm_round = 2 * norm_order::accumulators;

/// Adds the squares of a round of magnitudes to the accumulators of their chunk.
template <class Square>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr void add_norm_round(std::uint32_t const (&bits)[norm_round],
                                                                      double (&sums)[norm_order::accumulators],
                                                                      Square square) noexcept {
  constexpr int lane = norm_order::neighbours / 2;
  for (int half = 0; half < norm_order::neighbours; half += lane) {
    for (int first = 0; first < norm_order::accumulators; first += lane)
      for (int i = 0; i < lane; ++i) sums[first + i] += square(bits[2 * first + half + i]);
    exact::settle(sums);
  }
}

// Below, Source is a pointer, or a type that is added to and indexed like one.

/// Sums the squares of a whole chunk. Returns false, with no result, where an element is subnormal, NaN or infinite.
template <class Source> LOFT_HOST_DEVICE constexpr bool norm_of_plain_chunk(Source values, double& result) noexcept {
  double sums[norm_order::accumulators] = {};
  std::uint32_t least = ~0u;  // of the magnitudes less one, where 0 is the largest
  for (int first = 0; first < norm_order::chunk; first += norm_round) {
    std::uint32_t bits[norm_round];
    for (int i = 0; i < norm_round; ++i) {
      bits[i] = norm_bits(values[first + i]);
      least = min(least, bits[i] - 1);
    }
    add_norm_round(bits, sums, [](std::uint32_t magnitude) {
      double const value = static_cast<double>(bit_cast<float>(magnitude));
      return value * value;
    });
  }
  result = norm_tree(sums);
  return least >= float_least_normal - 1 && bit_cast<std::uint64_t>(result) < double_infinity_bits;
}

/// The sum of the squares of one chunk's finite elements; counts the others. in: a count up to norm_order::chunk.
template <class Source>
LOFT_HOST_DEVICE constexpr double norm_of_chunk(Source values, int count, std::int64_t& nonfinite) noexcept {
  double result = 0;
  if (!constant_evaluated() && count == norm_order::chunk && norm_of_plain_chunk(values, result)) return result;
  double sums[norm_order::accumulators] = {};
  for (int first = 0; first < count; first += norm_round) {
    std::uint32_t bits[norm_round] = {};
    std::int32_t found = 0;
    for (int i = 0; i < min(norm_round, count - first); ++i) {
      bits[i] = norm_bits(values[first + i]);
      found += bits[i] >= float_infinity ? 1 : 0;
    }
    add_norm_round(bits, sums, [](std::uint32_t magnitude) { return norm_square(magnitude); });
    nonfinite += found;
  }
  return norm_tree(sums);
}

/// The partial of `count` elements. The trees of the chunks so far are kept like the binary digits of the number of
/// chunks: as soon as there are two of one size, they are added.
template <class Source> LOFT_HOST_DEVICE constexpr norm_partial partial_of(Source values, std::int64_t count) noexcept {
  double trees[52] = {};  // of 2^level chunks
  std::int64_t chunks = 0, nonfinite = 0;
  for (std::int64_t left = count; left > 0; left -= norm_order::chunk, ++chunks) {
    auto const length = static_cast<int>(min<std::int64_t>(norm_order::chunk, left));
    double sum = norm_of_chunk(values + chunks * norm_order::chunk, length, nonfinite);
    int level = 0;
    for (; (chunks >> level & 1) != 0; ++level) sum = exact::sum(trees[level], sum);
    trees[level] = sum;
  }
  double sum = 0;
  for (int level = 0; chunks >> level != 0; ++level)
    if ((chunks >> level & 1) != 0) sum = exact::sum(trees[level], sum);
  return {sum, static_cast<double>(nonfinite)};
}

}  // namespace detail

/// What `count` numbers add to a norm; nothing where count is 0 or below.
///
/// in: floats, or numbers that are floats exactly (minifloats). error: each addition is rounded once in double, in the
/// order of norm_order; the squares are exact. NaN and infinity are counted and left out; -0 is 0.
template <class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr norm_partial partial_norm(T const* values, std::int64_t count) noexcept {
  return detail::partial_of(values, count);
}

/// The norm of a tensor whose partials were added up over shards and ranks; infinite where an element was not finite.
///
/// error: rounded once from the sum of squares. A sum that is NaN or negative, which no addition of partials gives,
/// makes an infinite norm too.
[[nodiscard]] LOFT_HOST_DEVICE inline double norm_of(norm_partial p) noexcept {
  std::uint64_t const bits = bit_cast<std::uint64_t>(exact::sum(p.sum_of_squares, 0.0));  // -0 is 0
  bool const counted = bit_cast<std::uint64_t>(p.nonfinite) << 1 != 0;
  if (counted || bits >= detail::double_infinity_bits) return bit_cast<double>(detail::double_infinity_bits);
  return exact::square_root(p.sum_of_squares);
}

/// The factor that brings a gradient's norm to at most `limit` > 0: min(1, limit / norm). It is 1 for a norm that is
/// not finite, because no factor mends such a gradient, and 0 would hide it. error: rounded once.
[[nodiscard]] LOFT_HOST_DEVICE constexpr double clip_factor(double norm, double limit) noexcept {
  bool const finite = bit_cast<std::uint64_t>(norm) < detail::double_infinity_bits;
  return finite && norm > limit ? exact::quotient(limit, norm) : 1.0;
}

/// A non-owning view of the numbers of a tensor, or of one shard of it.
template <class T> struct norm_input {
  T const* values;
  std::int64_t count;
};

/// Computes one partial for each tensor of a list. A mistake is found before the first write.
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

/// Computes one norm for each partial.
[[nodiscard]] inline status norms_of(std::span<norm_partial const> partials, std::span<double> out) noexcept {
  if (partials.size() != out.size()) return status::norm_count_mismatch;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = norm_of(partials[i]);
  return status::ok;
}

}  // namespace loft
