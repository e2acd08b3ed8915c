// SPDX-License-Identifier: Apache-2.0
// The name of a format and a line that says what it is: format_name and describe, for number formats and block formats.
// Everything printed is derived from the type's spelling, its spec and decode; nothing is written down twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "loft/block/quantize_block.hpp"
#include "loft/core/bits.hpp"
#include "loft/number/convert.hpp"
#include "loft/number/format.hpp"

namespace loft {

/// Characters that lie elsewhere, as std::string_view without its header. It converts to every type that is made of a
/// pointer and a size, such as std::string and std::string_view.
struct text_view {
  char const* data;  ///< the first character; no zero need follow the last
  std::size_t size;  ///< how many there are

  /// The `count` characters from `text` on.
  constexpr text_view(char const* text, std::size_t count) noexcept : data{text}, size{count} {}
  /// The characters from `text` up to a zero.
  constexpr text_view(char const* text) noexcept : text_view{text, __builtin_strlen(text)} {}
  /// What S makes of the pointer and the size.
  template <class S>
    requires requires(char const* text, std::size_t count) { S(text, count); }
  constexpr operator S() const { return S(data, size); }
  /// Whether both have the same characters.
  friend constexpr bool operator==(text_view a, text_view b) noexcept {
    bool same = a.size == b.size;
    for (std::size_t i = 0; same && i < a.size; ++i) same = a.data[i] == b.data[i];
    return same;
  }
};

/// One line of text in a fixed buffer, with a zero behind it. For host code.
struct description {
  static constexpr int capacity = 255;
  char text[capacity + 1] = {};
  int size = 0;

  [[nodiscard]] constexpr text_view view() const noexcept { return {text, static_cast<std::size_t>(size)}; }
};

namespace detail {

/// The compiler's spelling of T, with more around it that is the same for every T.
template <class T> constexpr text_view signature() noexcept { return __PRETTY_FUNCTION__; }

/// The spelling without what qualifies its names: "loft::square<loft::mxfp4, 32>" -> "square<mxfp4, 32>".
template <class T> constexpr description shortened() noexcept {
  // What stands around the name is measured on one whose name is known.
  constexpr text_view known = signature<int>(), all = signature<T>();
  std::size_t first = known.size - 3;
  while (!(text_view{known.data + first, 3} == "int")) --first;
  std::size_t const end = all.size - (known.size - first - 3);
  description result;
  int start[description::capacity] = {}, depth = 0;  // where the name that is being read starts, for each depth of <>
  for (std::size_t i = first; i < end; ++i) {
    char const c = all.data[i];
    if (c == ':' && i + 1 < end && all.data[i + 1] == ':') {
      while (result.size > start[depth]) result.text[--result.size] = '\0';
      ++i;
      continue;
    }
    if (result.size < description::capacity) result.text[result.size++] = c;
    if (c == '<') ++depth;
    if (c == '>') --depth;
    if (c == '<' || c == ',' || (c == ' ' && all.data[i - 1] == ',')) start[depth] = result.size;
  }
  return result;
}

template <class T> inline constexpr description short_name = shortened<T>();

// A line is built piece by piece; what does not fit is cut.

constexpr void append(description& line, char c) noexcept {
  if (line.size < description::capacity) line.text[line.size++] = c;
}
constexpr void append(description& line, text_view text) noexcept {
  for (std::size_t i = 0; i < text.size; ++i) append(line, text.data[i]);
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

template <class... Pieces> constexpr void append_all(description& line, Pieces const&... pieces) noexcept {
  (append(line, pieces), ...);
}

template <Format F> constexpr void append_code(description& line, std::uint32_t code) noexcept {
  append(line, "0x");
  append_digits(line, code, 16, (F::spec.bits() + 3) / 4);
}

/// How the bits below the sign are shared out.
template <Format F> constexpr void append_fields(description& line) noexcept {
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

template <Format F> constexpr void append_range(description& line) noexcept {
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
constexpr text_view format_name() noexcept { return detail::short_name<std::remove_const_t<F>>.view(); }

/// A number format in one line:
/// "e4m3: 8 bits, sign 1, exponent 4, mantissa 3, bias 7, max 448, least normal 2^-6, least 2^-9, NaN 0x7f, no
/// infinity".
///
/// `max` is the largest finite value and `least` the least positive one, both exact; NaN is the canonical code. host
/// only.
template <Format F> constexpr description describe() noexcept {
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
template <BlockFormat B> constexpr description describe() noexcept {
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
