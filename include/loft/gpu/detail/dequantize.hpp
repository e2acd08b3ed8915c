// SPDX-License-Identifier: Apache-2.0
// The kernel that decodes: lanes of eight elements, from words of codes to words of numbers.
// Source: design section 2 (data through one block, back).
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/block/quantize_lanes.hpp"
#include "loft/gpu/detail/grid.hpp"
#include "loft/gpu/detail/rows.hpp"
#include "loft/gpu/detail/values.hpp"
#include "loft/tensor/quantize.hpp"

namespace loft::gpu {

/// Loads eight codes that start at a byte, of which `bytes` bytes are in the tensor. Wide: all are, at a whole word.
template <Format F, bool Wide>
LOFT_HOST_DEVICE inline void load_eight(std::uint8_t const* codes, int bytes, std::uint32_t* words) noexcept {
  constexpr int all = F::spec.bits();
  if constexpr (Wide) {
    for (int i = 0; i < all / 4; ++i) words[i] = reinterpret_cast<std::uint32_t const*>(codes)[i];
  } else {
    for (int i = 0; i < all; ++i)
      if (i < bytes) words[i / 4] |= static_cast<std::uint32_t>(codes[i]) << i % 4 * 8;
  }
}

/// True where a code's fields are those of a float whose exponent is too small by fields_exponent<F>: formats without
/// specials, of a sign and a magnitude.
template <Format F> inline constexpr bool has_float_fields = requires {
  requires F::spec.special == specials::none && !F::spec.twos_complement && F::spec.is_signed && F::spec.has_zero;
};
template <Format F> inline constexpr int fields_exponent = 127 - F::spec.bias;

/// The eight codes as floats; of formats with has_float_fields the fields alone, the values times
/// 2^-fields_exponent<F>.
template <Format F> LOFT_HOST_DEVICE inline void decode_eight(std::uint32_t const* words, float* values) noexcept {
  constexpr auto spec = F::spec;
  constexpr int bits = spec.bits();
  for (int i = 0; i < 8; ++i) {
    std::uint32_t const top = detail::code_on_top<F>(words, i);
    if constexpr (has_float_fields<F>) {
      constexpr std::uint32_t mask = detail::float_sign | spec.magnitude_mask() << (23 - spec.mantissa_bits);
      values[i] = bit_cast<float>(
          static_cast<std::uint32_t>(static_cast<std::int32_t>(top) >> (8 - spec.exponent_bits)) & mask);
    } else {
      values[i] = detail::decode_number<F>(static_cast<code<F>>(top >> (32 - bits)));
    }
  }
}

/// values[i] *= 2^exponent, exactly while the result is a float.
LOFT_HOST_DEVICE inline void scale_eight(float* values, int exponent) noexcept {
  bool const once = exponent <= 127 && exponent >= -149;
  float const factor = detail::power_of_two(once ? exponent : (exponent > 0 ? 127 : -126));
  for (int i = 0; i < 8; ++i) values[i] = exact::multiply(values[i], factor);
  if (once) return;
  float const rest = detail::power_of_two(exponent > 0 ? exponent - 127 : exponent + 126);
  for (int i = 0; i < 8; ++i) values[i] = exact::multiply(values[i], rest);
}

/// True where eight codes become bfloat16 two at a time.
template <class O, class T>
inline constexpr bool decodes_pairs = [] {
  using format = typename O::format;
  using element = typename format::element;
  return std::is_same_v<T, bf16_t> && native::has_bf16_pairs && has_float_fields<element> &&
         element::spec.bits() == 4 && detail::is_power_of_two_format<typename format::scale> && !detail::rotates<O> &&
         !detail::has_constant<O>;
}();

/// Eight 4-bit codes times 2^exponent as four pairs of bfloat16. The fields are those of a bfloat16 whose exponent is
/// too small; the first product is exact, the second rounds once. in: an exponent for which nothing comes near the
/// largest number.
template <Format F>
LOFT_HOST_DEVICE inline void decode_pairs(std::uint32_t codes, int exponent, std::uint32_t (&pairs)[4]) noexcept {
  constexpr int up = 7 - F::spec.mantissa_bits;
  auto const both = [](int x) { return static_cast<std::uint32_t>(x) * 0x1'0001u; };
  auto const power = [&](int e) { return both(e >= -126 ? (e + 127) << 7 : 1 << (e + 133)); };
  std::uint32_t const near = both((fields_exponent<F> + 127) << 7), far = power(exponent);
  std::uint32_t halves[4] = {};  // elements i and i + 4
  for (int i = 0; i < 4; ++i) {
    // Each nibble twice: with its sign on top of a half, and with its fields where a bfloat16 has them.
    std::uint32_t const nibbles = (i < 2 ? codes : codes >> 8) & (i % 2 == 0 ? 0x000f'000fu : 0x00f0'00f0u);
    std::uint32_t const twice = nibbles * (i % 2 == 0 ? 0x1000u + (1u << up) : 0x100u + (1u << (up - 4)));
    std::uint32_t const value = twice & (0x8000'8000u | both(F::spec.magnitude_mask() << up));
    halves[i] = native::multiply_bf16_pairs(native::multiply_bf16_pairs(value, near), far);
  }
  pairs[0] = native::choose_bytes(halves[0], halves[1], 0x5410);
  pairs[1] = native::choose_bytes(halves[2], halves[3], 0x5410);
  pairs[2] = native::choose_bytes(halves[0], halves[1], 0x7632);
  pairs[3] = native::choose_bytes(halves[2], halves[3], 0x7632);
}

/// Eight elements of one block: code times scale, then the tensor's factor or the rule's constant, each product rounded
/// once. Gives true where no value can be beyond 2^120.
template <class O>
LOFT_HOST_DEVICE inline bool dequantize_eight(std::uint32_t const* words, code<typename O::format::scale> const& scale,
                                              int col, float tensor_decode, float* values) noexcept {
  using format = typename O::format;
  using element = typename format::element;
  constexpr int sharing = detail::min(8, detail::factor_cols<format>);
  constexpr bool scaled_again = has_tensor_scale<format> || detail::has_constant<O>;
  bool small = false;
  if (detail::is_nan_scale<format>(scale)) {
    for (int i = 0; i < 8; ++i) values[i] = bit_cast<float>(detail::float_nan);
    return false;
  }
  if constexpr (detail::is_power_of_two_format<typename format::scale>) {
    int const exponent = static_cast<int>(scale) - format::scale::spec.bias;
    decode_eight<element>(words, values);
    scale_eight(values, exponent + (has_float_fields<element> ? fields_exponent<element> : 0));
    small = exponent + element::spec.max_exponent() < 119;
  } else {
    bool alternative = false;
    if constexpr (requires { typename format::alternative; }) {
      alternative = detail::is_alternative<format>(scale);
      if (alternative) {
        decode_eight<typename format::alternative>(words, values);
        for (int i = 0; i < 8; ++i) values[i] = exact::multiply(values[i], format::alternative_unit);
      }
    }
    if (!alternative) {
      decode_eight<element>(words, values);
      if constexpr (has_float_fields<element>) scale_eight(values, fields_exponent<element>);
    }
    for (int first = 0; first < 8; first += sharing) {
      float const factor = detail::factor_of<format>(scale, col + first);
      for (int i = first; i < first + sharing; ++i) values[i] = exact::multiply(values[i], factor);
    }
  }
  if constexpr (scaled_again) {
    small = false;
    if (tensor_decode != 1.0f)
      for (int i = 0; i < 8; ++i) values[i] = exact::multiply(values[i], tensor_decode);
  }
  return small;
}

template <class O, class T, ScaleLayout L> struct dequantize_arguments {
  quantized_view<typename O::format const, L> in;
  matrix_view<T> out;
  O how;
  std::uint64_t const* seed;  ///< as quantized_output has it
  float tensor_decode;        ///< where the format has no tensor scale
  row_grid grid;
};

/// Each lane has eight elements of a row, several times, the loads of all first. Wide: all of them, in words.
template <class O, class T, class L, bool Wide>
__global__ void __launch_bounds__(value_tuning::threads) dequantize_rows(dequantize_arguments<O, T, L> const a) {
  using format = typename O::format;
  using element = typename format::element;
  constexpr int count = value_tuning::values, bits = element::spec.bits(), step = value_tuning::threads * count;
  constexpr int rounds = Wide ? value_tuning::decode_rounds : 1;
  auto const place = place_of_block(a.grid.rows, a.grid.chunks, step * rounds);
  std::int64_t const row = place.row, first = place.col + thread_index() * count;
  std::uint8_t const* const codes = a.in.codes + row * packed_bytes<element>(a.grid.cols);
  auto const rotation = with_seed(a.how.rotation, a.seed);
  detail::scale_grid<format, L> const grid{a.in.rows, a.grid.cols};
  float t = a.tensor_decode;
  if constexpr (has_tensor_scale<format>) t = *a.in.tensor_scale;
  struct part {
    std::uint32_t words[(bits + 3) / 4];
    code<typename format::scale> scale;
  };
  auto const load = [&](std::int64_t col, int valid) {
    part result{};
    result.scale = a.in.scales[grid.place(row, col / format::shape.cols)];
    load_eight<element, Wide>(codes + col * bits / 8, (valid * bits + 7) / 8, result.words);
    return result;
  };
  auto const work = [&](part const& from, std::int64_t col, int valid) {
    if constexpr (Wide && decodes_pairs<O, T>) {
      int const exponent = static_cast<int>(from.scale) - format::scale::spec.bias;
      if (exponent < 119) {
        std::uint32_t pairs[4];
        decode_pairs<element>(from.words[0], exponent, pairs);
        if (valid > 0) store_words(&a.out(row, col), pairs);
        return;
      }
    }
    float values[count];
    bool small = dequantize_eight<O>(from.words, from.scale, static_cast<int>(col % format::shape.cols), t, values);
    if constexpr (detail::rotates<O>) {
      lane_group<detail::max(1, detail::rotation_size<O> / count)> const group;
      rotation.template invert_lanes<count>(values, group);
      for (float& value : values)
        if (detail::magnitude_bits(value) > detail::float_infinity) value = bit_cast<float>(detail::float_nan);
      small = false;
    }
    if (valid > 0) store_numbers<Wide>(&a.out(row, col), a.out.col_stride, values, valid, small);
  };
  if (rounds > 1 && place.col + rounds * step <= a.grid.cols) {
    part parts[rounds];
#pragma unroll
    for (int round = 0; round < rounds; ++round) parts[round] = load(first + round * step, count);
#pragma unroll
    for (int round = 0; round < rounds; ++round) work(parts[round], first + round * step, count);
    return;
  }
  // At the end of a row: the others of a run exchange with lanes beyond it.
  auto const valid_at = [&](int round) {
    return static_cast<int>(detail::clamp<std::int64_t>(a.grid.cols - (first + round * step), 0, count));
  };
  auto const load_round = [&](int round) {
    return valid_at(round) > 0 ? load(first + round * step, valid_at(round)) : part{};
  };
  part next = load_round(0);
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    part const from = next;
    if (round + 1 < rounds) next = load_round(round + 1);
    work(from, first + round * step, valid_at(round));
  }
}

}  // namespace loft::gpu
