// SPDX-License-Identifier: Apache-2.0
// The name of a format and a line that says what it is: format_name and describe, for number formats and block formats.
// Source: everything printed is derived from the type's spelling, its spec and decode; nothing is written down twice.
#ifndef LOFT_BLOCK_DESCRIBE_HPP
#define LOFT_BLOCK_DESCRIBE_HPP

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "loft/block/quantize_block.hpp"
#include "loft/core/bits.hpp"
#include "loft/number/convert.hpp"
#include "loft/number/format.hpp"

namespace loft {

/// One line of text in a fixed buffer, with a zero behind it. For host code.
struct description {
  static constexpr int capacity = 255;
  char text[capacity + 1] = {};
  int size = 0;

  [[nodiscard]] constexpr std::string_view view() const noexcept { return {text, static_cast<std::size_t>(size)}; }
};

namespace detail {

/// The compiler's spelling of T.
template <class T>
constexpr auto signature() noexcept {
  return std::string_view{__PRETTY_FUNCTION__};
}
template <class T>
constexpr std::string_view spelling() noexcept {
  // What stands around the name is the same for every T: it is measured on one whose name is known.
  constexpr std::string_view known = signature<int>();
  constexpr std::size_t before = known.rfind("int"), after = known.size() - before - 3;
  std::string_view const all = signature<T>();
  return all.substr(before, all.size() - before - after);
}

template <int Capacity>
struct short_text {
  char text[Capacity + 1] = {};
  int size = 0;
};

/// The spelling without what qualifies its names: "loft::square<loft::mxfp4, 32>" -> "square<mxfp4, 32>".
template <class T>
constexpr auto shortened() noexcept {
  constexpr std::string_view all = spelling<T>();
  constexpr int capacity = static_cast<int>(all.size());
  short_text<capacity> result;
  int start[capacity + 1] = {}, depth = 0;  // where the name that is being read starts, for each depth of <>
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all.substr(i, 2) == "::") {
      result.size = start[depth];
      ++i;
      continue;
    }
    char const c = all[i];
    result.text[result.size++] = c;
    if (c == '<') ++depth;
    if (c == '>') --depth;
    if (c == '<' || c == ',' || (c == ' ' && all[i - 1] == ',')) start[depth] = result.size;
  }
  for (int i = result.size; i < capacity; ++i) result.text[i] = '\0';
  return result;
}

template <class T>
inline constexpr auto short_name = shortened<T>();

// ---- a line, built piece by piece; what does not fit is cut
// ----------------------------------------------------------------

constexpr void append(description& line, char c) noexcept {
  if (line.size < description::capacity) line.text[line.size++] = c;
}
constexpr void append(description& line, std::string_view text) noexcept {
  for (char const c : text) append(line, c);
}
/// A number in base 10 or 16, with zeros in front up to `digits`.
constexpr void append_digits(description& line, std::uint64_t number, unsigned base, int digits) noexcept {
  char reversed[64] = {};
  int count = 0;
  for (; number != 0 || count < digits; number /= base) reversed[count++] = "0123456789abcdef"[number % base];
  while (count > 0) append(line, reversed[--count]);
}
constexpr void append(description& line, int number) noexcept {
  if (number < 0) append(line, '-');
  append_digits(line, static_cast<std::uint64_t>(number < 0 ? -std::int64_t{number} : std::int64_t{number}), 10, 1);
}
/// A positive number in decimals, to nine places: exact for multiples of 2^-9 below 2^53.
constexpr void append(description& line, double number) noexcept {
  auto whole = static_cast<std::uint64_t>(number);
  auto places = static_cast<std::uint64_t>((number - static_cast<double>(whole)) * 1e9 + 0.5);
  whole += places / 1'000'000'000;
  places %= 1'000'000'000;
  append_digits(line, whole, 10, 1);
  if (places == 0) return;
  int digits = 9;
  for (; places % 10 == 0; places /= 10) --digits;
  append(line, '.');
  append_digits(line, places, 10, digits);
}
/// A positive float, exactly: in decimals where these are few, else as an integer times a power of two.
constexpr void append(description& line, float number) noexcept {
  auto const parts = unpack<std::uint32_t>(number);
  std::uint32_t odd = parts.significand;
  int exponent = parts.exponent - 31;
  for (; odd % 2 == 0; odd /= 2) ++exponent;
  bool const short_decimal = parts.exponent < 24 && (odd == 1 ? exponent >= 0 : exponent >= -9);
  if (short_decimal) return append(line, static_cast<double>(number));
  if (odd != 1) {
    append_digits(line, odd, 10, 1);
    append(line, " * ");
  }
  append(line, "2^");
  append(line, exponent);
}

template <class... Pieces>
constexpr void append_all(description& line, Pieces const&... pieces) noexcept {
  (append(line, pieces), ...);
}

template <Format F>
constexpr void append_code(description& line, std::uint32_t code) noexcept {
  append(line, "0x");
  append_digits(line, code, 16, (F::spec.bits() + 3) / 4);
}

/// How the bits below the sign are shared out.
template <Format F>
constexpr void append_fields(description& line) noexcept {
  constexpr auto spec = F::spec;
  if constexpr (requires { spec.exponent_bits; }) {
    append_all(line, ", exponent ", spec.exponent_bits, ", mantissa ", spec.mantissa_bits, ", bias ", spec.bias);
  } else {
    int least = spec.mantissa_bits, most = 0;
    for (int exponent = spec.min_exponent(); exponent <= spec.max_exponent(); ++exponent) {
      least = min(least, spec.mantissa_bits_at(exponent));
      most = max(most, spec.mantissa_bits_at(exponent));
    }
    append_all(line, ", mantissa ", least, " to ", most);
  }
}

template <Format F>
constexpr void append_range(description& line) noexcept {
  constexpr auto spec = F::spec;
  constexpr float least = decode<F>(with_sign<F>(spec.has_zero ? 1u : 0u, false));
  constexpr float least_normal = power_of_two(spec.min_exponent());
  append_all(line, ", max ", decode<F>(static_cast<code<F>>(spec.max_code())));
  // A fixed-point number has no normals and subnormals: its gap is the same everywhere.
  if (least != least_normal && !spec.twos_complement) append_all(line, ", least normal ", least_normal);
  append_all(line, ", least ", least);
}

}  // namespace detail

/// The name of a format or block format as its struct is spelt, without namespaces: "e4m3", "square<mxfp4, 32>".
/// clang 14 spells defaulted template arguments out, others leave them away.
template <class F>
  requires(Format<F> || BlockFormat<F>)
constexpr std::string_view format_name() noexcept {
  constexpr auto const& name = detail::short_name<std::remove_const_t<F>>;
  return {name.text, static_cast<std::size_t>(name.size)};
}

/// A number format in one line:
/// "e4m3: 8 bits, sign 1, exponent 4, mantissa 3, bias 7, max 448, least normal 2^-6, least 2^-9, NaN 0x7f, no
/// infinity".
///
/// `max` is the largest finite value and `least` the least positive one, both exact; NaN is the canonical code. host
/// only.
template <Format F>
constexpr description describe() noexcept {
  constexpr auto spec = F::spec;
  description line;
  detail::append_all(line, format_name<F>(), ": ", spec.bits(), " bits, sign ", spec.is_signed ? 1 : 0);
  detail::append_fields<F>(line);
  if (spec.twos_complement) detail::append(line, ", two's complement");
  detail::append_range<F>(line);
  detail::append(line, spec.has_nan() ? ", NaN " : ", no NaN");
  if (spec.has_nan()) detail::append_code<F>(line, spec.nan_code());
  detail::append(line, spec.has_infinity() ? ", infinity " : ", no infinity");
  if (spec.has_infinity()) detail::append_code<F>(line, spec.infinity_code());
  if (!spec.has_zero) detail::append(line, ", no zero");
  return line;
}

/// A block format in one line: "nvfp4: e2m1 in blocks of 1 x 16, scale ue4m3, 4.5 bits an element, tensor scale float".
///
/// The bits of an element hold its share of the block's scale, not of the tensor's. A scale that is a record of several
/// levels is given by its size. host only.
template <BlockFormat B>
constexpr description describe() noexcept {
  description line;
  detail::append_all(line, format_name<B>(), ": ", format_name<typename B::element>());
  if constexpr (requires { typename B::alternative; })
    detail::append_all(line, " or ", format_name<typename B::alternative>());
  detail::append_all(line, " in blocks of ", B::shape.rows, " x ", B::shape.cols, ", scale ");
  if constexpr (detail::plain_scale<B>) detail::append(line, format_name<typename B::scale>());
  else detail::append_all(line, "of ", static_cast<int>(sizeof(code<typename B::scale>)), " bytes in levels");
  detail::append_all(line, ", ", bits_per_element<B>, " bits an element, ");
  detail::append(line, has_tensor_scale<B> ? "tensor scale float" : "no tensor scale");
  return line;
}

}  // namespace loft

#endif
