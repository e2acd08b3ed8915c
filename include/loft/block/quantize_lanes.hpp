// SPDX-License-Identifier: Apache-2.0
// Blocks of which several lanes hold a part each: quantize_lanes and dequantize_lanes, for kernels of one's own.
// Source: design section 2 (data through one block); the results are those of quantize_block.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/block/block_values.hpp"
#include "loft/block/correction.hpp"
#include "loft/block/elements.hpp"
#include "loft/block/quantize_block.hpp"
#include "loft/block/register_codec.hpp"
#include "loft/block/scale_chooser.hpp"
#include "loft/core/bits.hpp"
#include "loft/native/gpu/lane_group.hpp"

namespace loft {

/// What one lane holds of quantized blocks: the codes of its `Count` values, packed as in memory, and the scale of each
/// block that it has values of.
template <BlockFormat B, int Count> struct lane_codes {
  static constexpr int blocks = Count <= B::shape.cols ? 1 : Count / B::shape.cols;
  std::uint32_t words[Count * B::element::spec.bits() / 32];
  code<typename B::scale> scales[blocks];
};

namespace detail {

/// True where a rotation can change the signs of pairs of bfloat16, and a run is whole pairs.
template <class R> inline constexpr bool has_pairs = requires(R const rotation, std::uint32_t* pairs) {
  requires R::size % 2 == 0;
  rotation.template flip_pairs<2>(pairs, one_lane{});
};
template <class O, class T>
inline constexpr bool flips_pairs =
    std::is_same_v<T, bf16_t>&& has_pairs<rotation_of<O>>&& O::policy == nonfinite::propagate;

/// The values as the operand sees them: rotated, and those that are not finite treated as it says. Where that changes
/// nothing they come back as they are, else as floats.
template <class O, int Count, LaneGroup G, class T>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr auto prepare(lane_values<T, Count> const& in, O const& how,
                                                               G const& group) noexcept {
  if constexpr (!rotates<O> && O::policy == nonfinite::propagate) {
    return in;
  } else {
    lane_values<float, Count> result{};
    if constexpr (flips_pairs<O, T>) {
      lane_values<T, Count> flipped = in;
      how.rotation.template flip_pairs<Count>(flipped.words, group);
      for (int i = 0; i < Count; ++i) result.values[i] = flipped[i];
      hadamard<rotation_size<O>>{}.template apply_lanes<Count>(result.values, group);
    } else {
      for (int i = 0; i < Count; ++i) result.values[i] = apply_nonfinite<O::policy>(in[i]);
      if constexpr (rotates<O>) {
        how.rotation.template apply_lanes<Count>(result.values, group);
        for (int i = 0; i < Count; ++i) result.values[i] = apply_nonfinite<O::policy>(result.values[i]);
      }
    }
    return result;
  }
}

/// `total` and the errors of the group's values in the order of their index: lane after lane adds its own.
template <class O, int Count, int Lanes, LaneGroup G, class V>
LOFT_HOST_DEVICE constexpr float add_lane_errors(V const& in, int first, int valid,
                                                 code<typename O::format::scale> const& scale, int col, O const& how,
                                                 tensor_scale t, std::uint64_t index, G const& group) noexcept {
  using format = typename O::format;
  using error = typename rule_traits_of<O>::error;
  constexpr int bits = format::element::spec.bits();
  std::uint32_t words[Count * bits / 32] = {};
  encode_words<O, Count>(in, first, scale, col, how, t, index, words);
  float total = 0;
  for (int lane = 0; lane < Lanes; ++lane) {
    float sum = total;
    for (int i = 0; i < Count; ++i) {
      auto const c = code_in_words<typename format::element>(words, i);
      float const decoded = exact::opaque(decode_element<format>(c, scale, col + i, t.decode));
      float const next = exact::opaque(error::add(sum, exact::opaque(exact::subtract(decoded, in[first + i]))));
      sum = i < valid ? next : sum;
    }
    // The lane whose turn it is hands its sum to all.
    int const away = Lanes == 1 ? 0 : (group.rank() ^ lane) % Lanes;
    for (int mask = 1; mask < Lanes; mask *= 2) {
      float const other = exchange(sum, mask, group);
      sum = (away & mask) != 0 ? other : sum;
    }
    total = sum;
  }
  return total;
}

/// The scale of the block that `Lanes` lanes hold, each `Part` values from `first` on, of which `valid` count.
template <class O, int Part, int Lanes, LaneGroup G, class V>
LOFT_HOST_DEVICE constexpr auto lane_scale(V const& in, int first, int valid, std::uint32_t amax, int col, O const& how,
                                           tensor_scale t, std::uint64_t index, G const& group) noexcept {
  scale_chooser<O> chooser{};
  chooser.amax[0] = amax;
  if constexpr (has_statistic<O>) {
    static_assert(Lanes == 1, "quantize_lanes: this rule looks at a whole block, which one lane has to hold");
    float values[Part] = {};
    for (int i = 0; i < Part; ++i) values[i] = in[first + i];
    chooser.statistic[0].add(values, valid);
  }
  if constexpr (has_candidates<O>) {
    for (int c = 0; c < candidates<O>; ++c) {
      auto const scale = chooser.scale(0, c, how, t);
      chooser.compare(0, c, scale, add_lane_errors<O, Part, Lanes>(in, first, valid, scale, col, how, t, index, group));
    }
  }
  return chooser.best(0, how, t);
}

/// The corrected scales of a lane's blocks, see correct_scales. `col`: the column of the lane's first value in its
/// block.
template <class O, int Count, LaneGroup G, class V>
LOFT_HOST_DEVICE constexpr void correct_lane_scales(V const& in, O const& how, tensor_scale t, std::uint64_t index,
                                                    int col, G const& group,
                                                    lane_codes<typename O::format, Count>& result) noexcept {
  using format = typename O::format;
  constexpr int run = correction_sums::run, part = min(Count, correction_group<O>), cols = format::shape.cols,
                wide = min(part, cols);
  static_assert(Count % run == 0,
                "quantize_lanes: a rule that corrects scales has lanes of a multiple of eight values");
  // By for_each_index, because devices have to unroll what indexes registers.
  for_each_index<Count / part>(Count / part, [&](int g) {
    int const first = g * part;
    correction_sums sums[part / run] = {};
    for_each_index<part>(part, [&](int i) {
      auto const c = code_in_words<typename format::element>(result.words, first + i);
      sums[i / run].add(in[first + i],
                        decode_element<format>(c, result.scales[(first + i) / cols], (col + i) % cols, 1.0f));
    });
    add_as_tree<part / run>(sums);
    for (int mask = 1; mask < correction_group<O> / part; mask *= 2)
      sums[0].add({exchange(sums[0].squares, mask, group), exchange(sums[0].products, mask, group)});
    double const factor = sums[0].factor(t.decode);
    for_each_index<part / wide>(part / wide, [&](int b) {
      int const at = first + b * wide;
      auto& scale = result.scales[at / cols];
      scale = corrected_scale(scale, factor, how, index + static_cast<std::uint64_t>(at - col));
    });
  });
}

/// The codes of a lane's prepared values, from column `col` of their block on, under the scales that `scale_for(b)`
/// gives its blocks.
template <class O, int Count, class V, class Scales>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr lane_codes<typename O::format, Count> encode_prepared(
    V const& in, int col, O const& how, tensor_scale t, std::uint64_t index, Scales scale_for) noexcept {
  using format = typename O::format;
  constexpr int part = min(Count, format::shape.cols), bits = format::element::spec.bits();
  lane_codes<format, Count> result{};
  for (int b = 0; b < lane_codes<format, Count>::blocks; ++b) {
    result.scales[b] = scale_for(b);
    encode_words<O, part>(in, b * part, result.scales[b], col, how, t, index + static_cast<std::uint64_t>(b * part),
                          result.words + b * part * bits / 32);
  }
  return result;
}

/// quantize_lanes for prepared values. `valid`: how many of this lane's values count, the others being zeros.
template <class O, int Count, LaneGroup G, class V>
LOFT_HOST_DEVICE constexpr lane_codes<typename O::format, Count> quantize_prepared(V const& in, int valid, O const& how,
                                                                                   tensor_scale t, std::uint64_t index,
                                                                                   G const& group) noexcept {
  constexpr int cols = O::format::shape.cols, part = min(Count, cols), lanes = cols / part;
  int const col = lanes == 1 ? 0 : group.rank() % lanes * part;
  auto result = encode_prepared<O, Count>(
      in, col, how, t, index, [&](int b) __attribute__((always_inline)) {
        std::uint32_t const amax = largest_word<lanes>(in.template amax<part>(b * part), group);
        return lane_scale<O, part, lanes>(in, b * part, clamp(valid - b * part, 0, part), amax, col, how, t,
                                          index + static_cast<std::uint64_t>(b * part), group);
      });
  if constexpr (corrects<O>) correct_lane_scales<O, Count>(in, how, t, index, col, group, result);
  return result;
}

}  // namespace detail

/// Quantizes blocks of one row that a group of lanes holds: what a kernel calls behind a computation of its own.
///
/// in: this lane's `Count` values, which start at a multiple of Count in the row; a block that is longer than Count
/// lies in neighbouring lanes of `group`, as do a run of the rotation and a group of corrected scales. `t`: the
/// tensor's scale where the format has one. `first_index`: the tensor index of this lane's first value. All lanes call
/// together. out: this lane's codes, packed; the scale of its block, the same in all lanes that share it. The bits are
/// those of quantize_block, or of quantize where a rule corrects scales (ms_eden). For formats and rules that look at
/// more than a maximum (hif4, double_nvfp4, quest_scale) a lane holds whole blocks.
template <Operand O, int Count, LaneGroup G, class T>
LOFT_HOST_DEVICE constexpr lane_codes<typename O::format, Count> quantize_lanes(T const (&values)[Count], O const& how,
                                                                                tensor_scale t,
                                                                                std::uint64_t first_index,
                                                                                G const& group) noexcept {
  using format = typename O::format;
  constexpr int cols = format::shape.cols;
  static_assert(format::shape.rows == 1, "quantize_lanes: blocks of one row");
  static_assert(Count % cols == 0 || cols % Count == 0, "quantize_lanes: whole blocks, or equal parts of one");
  static_assert(
      cols <= Count * G::size && detail::rotation_of<O>::size <= Count * G::size &&
          detail::correction_group<O> <= Count * G::size,
      "quantize_lanes: a block, a run of the rotation, and the blocks whose scales are corrected together must "
      "fit the group of lanes");
  if constexpr (!has_tensor_scale<format>) t = detail::constant_of<O>();
  detail::lane_values<float, Count> in{};
  for (int i = 0; i < Count; ++i) in.values[i] = detail::to_float(values[i]);
  auto const prepared = detail::prepare(in, how, group);
  return detail::quantize_prepared<O, Count>(prepared, Count, how, t, first_index, group);
}

}  // namespace loft
