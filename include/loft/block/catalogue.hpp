// SPDX-License-Identifier: Apache-2.0
// Formats of blocks that share a scale: the catalogue, all_block_formats, and what each is quantized with by default.
// Source: OCP MX 1.0 section 5.2 and 6.3; NVFP4: arXiv 2509.25149 section 2; see each format for others.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "loft/block/block_format.hpp"
#include "loft/block/rules.hpp"
#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"
#include "loft/number/convert.hpp"
#include "loft/number/formats.hpp"
#include "loft/number/minifloat.hpp"
#include "loft/number/rounding.hpp"

namespace loft {

// clang-format off
// The catalogue. OCP MX formats: 32 elements share a power of two.
struct mxfp4 { using element = e2m1; using scale = e8m0; static constexpr block_shape shape{1, 32}; };       // MX, FP4
struct mxfp6_e2m3 { using element = e2m3; using scale = e8m0; static constexpr block_shape shape{1, 32}; };  // MX, FP6
struct mxfp6_e3m2 { using element = e3m2; using scale = e8m0; static constexpr block_shape shape{1, 32}; };  // MX, FP6
struct mxfp8_e4m3 { using element = e4m3; using scale = e8m0; static constexpr block_shape shape{1, 32}; };  // MX, FP8
struct mxfp8_e5m2 { using element = e5m2; using scale = e8m0; static constexpr block_shape shape{1, 32}; };  // MX, FP8
struct mxint8 { using element = int8_over_64; using scale = e8m0; static constexpr block_shape shape{1, 32}; };  // INT8
// clang-format on

/// Two levels: 16 elements share an E4M3 scale, and the tensor has a float. source: arXiv 2509.25149 section 2.
struct nvfp4 {
  using element = e2m1;
  using scale = ue4m3;
  static constexpr block_shape shape{1, 16};
  static constexpr bool has_tensor_scale = true;
};
/// NVFP4 with 4-bit integers for elements. source: arXiv 2510.25602.
struct nvint4 {
  using element = int4;
  using scale = ue4m3;
  static constexpr block_shape shape{1, 16};
  static constexpr bool has_tensor_scale = true;
};

/// NVFP4 in which the scale's sign bit marks the blocks whose codes are integers, in units of 6/7. source: arXiv
/// 2603.28765.
struct if4 {
  using element = e2m1;
  using alternative = int4;
  using scale = e4m3;
  static constexpr block_shape shape{1, 16};
  static constexpr bool has_tensor_scale = true;
  static constexpr float alternative_unit = 6.0f / 7.0f;
};

// clang-format off
// FP8 with a float for every 128 elements of a row, or for a tile. source: DeepSeek-V3, arXiv 2412.19437 section 3.3.
struct fp8_1x128 { using element = e4m3; using scale = fp32; static constexpr block_shape shape{1, 128}; };      // row
struct fp8_128x128 { using element = e4m3; using scale = fp32; static constexpr block_shape shape{128, 128}; };  // tile
// clang-format on

/// A float for every row, as for tokens or channels; rows longer than 4096 have one for each 4096 columns. Under its
/// default rule, division_scale, the largest magnitude becomes the largest element. For the host: kernels quantize
/// blocks of up to 128 columns. source: the token-wise and channel-wise scales of arXiv 2501.17116, gamma = 6 / amax.
template <Format Element> struct per_row {
  using element = Element;
  using scale = fp32;
  static constexpr block_shape shape{1, 4096};
};

/// The format B on N x N tiles. Codes and scales of the transpose are the transposed codes and scales.
template <BlockFormat B, int N>
  requires(detail::plain_scale<B> && !detail::has_alternative<B>)
struct square {
  using element = typename B::element;
  using scale = typename B::scale;
  static constexpr block_shape shape{N, N};
  static constexpr bool has_tensor_scale = loft::has_tensor_scale<B>;
};

namespace detail {

/// The largest magnitudes of each G columns of a block, for scales with levels. What is not finite counts as the
/// largest float.
template <int G, int Cols> struct group_maxima {
  float amax[Cols / G] = {};

  LOFT_HOST_DEVICE constexpr void add(float const* values, int count) noexcept {
    for (int i = 0; i < count; i += G) {
      std::uint32_t group = bit_cast<std::uint32_t>(amax[i / G]);
      for_each_index<G>(min(G, count - i), [&](int k) { group = max(group, magnitude_bits(values[i + k])); });
      amax[i / G] = bit_cast<float>(min(float_max, group));
    }
  }
  LOFT_HOST_DEVICE constexpr float largest() const noexcept {
    std::uint32_t result = 0;  // bits order like magnitudes, and no build flushes them
    for (float group : amax) result = max(result, bit_cast<std::uint32_t>(group));
    return bit_cast<float>(result);
  }
};

}  // namespace detail

/// The three levels of a block of HiF4: an E6M2 scale, a bit that doubles 8 elements, a bit that doubles 4.
struct hif4_levels {
  code<e6m2> top;
  std::uint8_t eights;
  std::uint16_t fours;
};

/// A scale that is a record and not a number: `code` is the record itself.
template <class Record> struct record_spec {
  using code_type = Record;
  LOFT_HOST_DEVICE constexpr int bits() const noexcept { return static_cast<int>(sizeof(Record) * 8); }
  LOFT_HOST_DEVICE constexpr bool valid() const noexcept { return true; }
};

/// HiFloat4: 64 elements of sign and 1.2 fixed point, an E6M2 scale, and 24 bits that double runs of 8 and of 4; 4.5
/// bits a value. The scale and its inverse pass through bfloat16, to nearest even; elements are rounded with ties away
/// from zero. source: arXiv 2602.11287.
struct hif4 {
  /// The levels as a scale.
  struct scale {
    static constexpr record_spec<hif4_levels> spec{};
  };
  /// From the maxima of runs of four to the levels; the steps are in docs/numerics.md.
  struct rule {
    template <class> using statistic = detail::group_maxima<4, 64>;
    template <class B>
    LOFT_HOST_DEVICE constexpr hif4_levels scale(detail::group_maxima<4, 64> const& groups,
                                                 tensor_scale) const noexcept;
  };
  using element = e1m2;
  using rounding = nearest_away;
  static constexpr block_shape shape{1, 64};
  static constexpr int factor_cols = 4;

  LOFT_HOST_DEVICE static constexpr bool is_nan_scale(hif4_levels s) noexcept {
    return e6m2_t::from_bits(s.top).is_nan();
  }
  LOFT_HOST_DEVICE static constexpr hif4_levels nan_scale() noexcept {
    constexpr auto spec = e6m2::spec;
    return {static_cast<code<e6m2>>(spec.nan_code()), 0, 0};
  }
  LOFT_HOST_DEVICE static constexpr int doublings(hif4_levels s, int col) noexcept {
    return (s.eights >> (col / 8) & 1) + (s.fours >> (col / 4) & 1);
  }
  LOFT_HOST_DEVICE static constexpr float factor(hif4_levels s, int col) noexcept {
    return detail::scale_by_power_of_two(decode<e6m2>(s.top), doublings(s, col));
  }
  LOFT_HOST_DEVICE static constexpr float inverse(hif4_levels s, int col) noexcept {
    return detail::scale_by_power_of_two(reciprocal(s.top), -doublings(s, col));
  }
  /// 1 / scale, rounded to bfloat16.
  LOFT_HOST_DEVICE static constexpr float reciprocal(code<e6m2> top) noexcept {
    return decode<bf16>(encode<bf16>(exact::divide(1.0f, decode<e6m2>(top))));
  }
};

template <class B>
LOFT_HOST_DEVICE constexpr hif4_levels hif4::rule::scale(detail::group_maxima<4, 64> const& groups,
                                                         tensor_scale) const noexcept {
  float const amax = groups.largest();
  if (detail::magnitude_bits(amax) == 0) return {};
  constexpr float seventh = decode<bf16>(encode<bf16>(1.0f / 7.0f));
  hif4_levels result{encode<e6m2>(decode<bf16>(encode<bf16>(exact::multiply(amax, seventh)))), 0, 0};
  float const inverse = reciprocal(result.top);
  for (int eight = 0; eight < 8; ++eight) {
    float const pair[2] = {exact::multiply(groups.amax[2 * eight], inverse),
                           exact::multiply(groups.amax[2 * eight + 1], inverse)};
    bool const doubled = detail::max(pair[0], pair[1]) >= 4.0f;
    result.eights = static_cast<std::uint8_t>(result.eights | (doubled ? 1u : 0u) << eight);
    for (int k = 0; k < 2; ++k) {
      bool const again = pair[k] >= (doubled ? 4.0f : 2.0f);
      result.fours = static_cast<std::uint16_t>(result.fours | (again ? 1u : 0u) << (2 * eight + k));
    }
  }
  return result;
}

/// A float for 128 elements and an E4M3 scale for each 16 of them.
struct double_levels {
  float outer;
  code<ue4m3> inner[8];
};

/// NVFP4 with a float for every 128 elements in the place of the tensor's, so that no pass over the tensor comes first.
/// source: TetraJet-v2, arXiv 2510.27527 ("double block").
struct double_nvfp4 {
  /// The two levels as a scale.
  struct scale {
    static constexpr record_spec<double_levels> spec{};
  };
  /// From the maxima of runs of sixteen to the two levels; see docs/numerics.md.
  struct rule {
    template <class> using statistic = detail::group_maxima<16, 128>;
    template <class B>
    LOFT_HOST_DEVICE constexpr double_levels scale(detail::group_maxima<16, 128> const& groups,
                                                   tensor_scale) const noexcept;
  };
  using element = e2m1;
  static constexpr block_shape shape{1, 128};
  static constexpr int factor_cols = 16;

  LOFT_HOST_DEVICE static constexpr bool is_nan_scale(double_levels const& s) noexcept {
    return detail::magnitude_bits(s.outer) > detail::float_infinity;
  }
  LOFT_HOST_DEVICE static constexpr double_levels nan_scale() noexcept {
    return {bit_cast<float>(detail::float_nan), {}};
  }
  LOFT_HOST_DEVICE static constexpr float factor(double_levels const& s, int col) noexcept {
    return exact::multiply(decode<ue4m3>(s.inner[col / 16]), s.outer);
  }
};

template <class B>
LOFT_HOST_DEVICE constexpr double_levels double_nvfp4::rule::scale(detail::group_maxima<16, 128> const& groups,
                                                                   tensor_scale) const noexcept {
  float const amax = groups.largest();
  if (detail::magnitude_bits(amax) == 0) return {};
  tensor_scale const outer = tensor_scale_for<nvfp4>(amax);
  double_levels result{outer.decode, {}};
  // A run too small for the least scale takes that one, so that its larger values survive.
  for (int i = 0; i < 8; ++i)
    result.inner[i] = detail::max<code<ue4m3>>(1, two_level{}.scale<nvfp4>(groups.amax[i], outer));
  return result;
}

/// Every block format of the catalogue.
using all_block_formats = type_list<mxfp4, mxfp6_e2m3, mxfp6_e3m2, mxfp8_e4m3, mxfp8_e5m2, mxint8, nvfp4, nvint4, if4,
                                    hif4, fp8_1x128, fp8_128x128, double_nvfp4>;

namespace detail {

template <class B> struct default_rule {
  using type = std::conditional_t<is_power_of_two_format<typename B::scale>, ocp_floor,
                                  std::conditional_t<(sizeof(code<typename B::scale>) > 1), division_scale, two_level>>;
};
template <class B>
  requires requires { typename B::rule; }
struct default_rule<B> {
  using type = typename B::rule;
};
template <class B> struct default_rounding { using type = nearest_even; };
template <class B>
  requires requires { typename B::rounding; }
struct default_rounding<B> {
  using type = typename B::rounding;
};

}  // namespace detail

/// The rule a block format is quantized with when none is named: its own (member `rule`), or ocp_floor for power-of-two
/// scales, division_scale for scales of 16 bits and more, two_level for others.
template <BlockFormat B> using default_rule = typename detail::default_rule<B>::type;
/// The rounding when none is named: the format's own (member `rounding`), or nearest_even.
template <BlockFormat B> using default_rounding = typename detail::default_rounding<B>::type;

}  // namespace loft
