// SPDX-License-Identifier: Apache-2.0
// Writes docs/formats.md and docs/images/number-lines.svg from the catalogue: generate_formats <folder>.
// Everything in them follows from all_formats and all_block_formats, the sources apart, which stand here.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "loft/block.hpp"
#include "loft/loft.hpp"

namespace {

// Where a format comes from, keyed by its type. One that has no line here is listed with a dash.
template <class F> inline constexpr std::string_view source = "-";
template <> inline constexpr std::string_view source<loft::e1m2> = "the element of HiF4, arXiv 2602.11287";
template <> inline constexpr std::string_view source<loft::e2m1> = "OCP MX 1.0, 5.3 (FP4)";
template <> inline constexpr std::string_view source<loft::e2m3> = "OCP MX 1.0, 5.3 (FP6)";
template <> inline constexpr std::string_view source<loft::e3m2> = "OCP MX 1.0, 5.3 (FP6)";
template <> inline constexpr std::string_view source<loft::e3m4> = "ml_dtypes `float8_e3m4`";
template <> inline constexpr std::string_view source<loft::e4m3> = "OCP OFP8 1.0, 5";
template <> inline constexpr std::string_view source<loft::e5m2> = "OCP OFP8 1.0, 5";
template <> inline constexpr std::string_view source<loft::e4m3fnuz> = "Noune et al., arXiv 2206.02915";
template <> inline constexpr std::string_view source<loft::e5m2fnuz> = "Noune et al., arXiv 2206.02915";
template <> inline constexpr std::string_view source<loft::hifloat8> = "arXiv 2409.16626, 2";
template <> inline constexpr std::string_view source<loft::bf16> = "the upper half of binary32";
template <> inline constexpr std::string_view source<loft::fp16> = "IEEE 754-2019, 3.6 (binary16)";
template <> inline constexpr std::string_view source<loft::fp32> = "IEEE 754-2019, 3.6 (binary32)";
template <> inline constexpr std::string_view source<loft::int4> = "the element of NVINT4, arXiv 2510.25602";
template <> inline constexpr std::string_view source<loft::int6> = "as `int4`, 6 bits wide";
template <> inline constexpr std::string_view source<loft::int8> = "as `int4`, 8 bits wide";
template <> inline constexpr std::string_view source<loft::int8_over_64> = "OCP MX 1.0, 5.3 (INT8, units of 1/64)";
template <> inline constexpr std::string_view source<loft::ue3m1> = "FP4 without a sign; for second moments";
template <> inline constexpr std::string_view source<loft::ue4m3> = "the scale of NVFP4, arXiv 2509.25149";
template <> inline constexpr std::string_view source<loft::ue5m3> = "`e5m2` without sign, with 3 mantissa bits";
template <> inline constexpr std::string_view source<loft::ue5m3_ieee> = "`ue5m3` with the top exponent reserved";
template <> inline constexpr std::string_view source<loft::e6m2> = "the first scale of HiF4, arXiv 2602.11287";
template <> inline constexpr std::string_view source<loft::e8m0> = "OCP MX 1.0, 5.4 (E8M0)";
template <int K, int P, bool Signed, bool Extended>
inline constexpr std::string_view source<loft::p3109<K, P, Signed, Extended>> = "IEEE SA P3109 Interim Report";

template <> inline constexpr std::string_view source<loft::mxfp4> = "OCP MX 1.0, 5.2";
template <> inline constexpr std::string_view source<loft::mxfp6_e2m3> = "OCP MX 1.0, 5.2";
template <> inline constexpr std::string_view source<loft::mxfp6_e3m2> = "OCP MX 1.0, 5.2";
template <> inline constexpr std::string_view source<loft::mxfp8_e4m3> = "OCP MX 1.0, 5.2";
template <> inline constexpr std::string_view source<loft::mxfp8_e5m2> = "OCP MX 1.0, 5.2";
template <> inline constexpr std::string_view source<loft::mxint8> = "OCP MX 1.0, 5.2";
template <> inline constexpr std::string_view source<loft::nvfp4> = "arXiv 2509.25149, 2";
template <> inline constexpr std::string_view source<loft::nvint4> = "arXiv 2510.25602";
template <> inline constexpr std::string_view source<loft::if4> = "arXiv 2603.28765";
template <> inline constexpr std::string_view source<loft::hif4> = "arXiv 2602.11287";
template <> inline constexpr std::string_view source<loft::fp8_1x128> = "DeepSeek-V3, arXiv 2412.19437, 3.3";
template <> inline constexpr std::string_view source<loft::fp8_128x128> = "DeepSeek-V3, arXiv 2412.19437, 3.3";
template <> inline constexpr std::string_view source<loft::double_nvfp4> = "TetraJet-v2, arXiv 2510.27527";

// ---- pieces of text -------------------------------------------------------------------------------------------------

// The name without defaulted arguments at the end, which some compilers spell out: all defaults in the catalogue are
// true.
template <class F> std::string name_of() {
  constexpr std::string_view default_argument = ", true>";
  std::string name{loft::format_name<F>()};
  while (name.ends_with(default_argument)) name.replace(name.size() - default_argument.size(), std::string::npos, ">");
  return name;
}

std::string in_code(std::string const& text) { return "`" + text + "`"; }

// A value >= 0, exactly: 448, 2^-9, 16777215 * 2^104.
std::string exact(float value) {
  if (value == 0) return "0";
  loft::description line;
  loft::detail::append(line, value);
  return std::string{line.view()};
}

// A multiple of 2^-9, in decimals.
std::string decimal(float value) {
  loft::description line;
  loft::detail::append(line, std::fabs(static_cast<double>(value)));
  return (std::signbit(value) ? "-" : "") + std::string{line.view()};
}

template <class F> std::string code_text(std::uint32_t code) {
  loft::description line;
  loft::detail::append_code<F>(line, code);
  return in_code(std::string{line.view()});
}

// The code of the number with this ordinal, see format_spec.
template <class F> float magnitude(std::uint32_t ordinal) {
  return loft::decode<F>(static_cast<loft::code<F>>(F::spec.with_sign(ordinal, false)));
}

template <class F> float least_of() { return magnitude<F>(F::spec.has_zero ? 1 : 0); }

// ---- the table of number formats ------------------------------------------------------------------------------------

template <class F> constexpr bool has_fields = requires { F::spec.exponent_bits; };

template <class F> std::string fields_text() {
  constexpr auto spec = F::spec;
  std::string const sign = spec.is_signed ? "1" : "0";
  if constexpr (has_fields<F>) {
    return sign + " / " + std::to_string(spec.exponent_bits) + " / " + std::to_string(spec.mantissa_bits) + " | " +
           std::to_string(spec.bias);
  } else {
    return sign + " / tapered / " + std::to_string(spec.mantissa_bits) + " to 0 | -";
  }
}

// Fixed-point numbers have no normals: their gap is the same everywhere.
template <class F> std::string least_normal_text() {
  return F::spec.twos_complement ? "-" : exact(std::exp2(static_cast<float>(F::spec.min_exponent())));
}

template <class F> std::string specials_text() {
  using loft::specials;
  switch (F::spec.special) {
    case specials::none:
      return F::spec.twos_complement ? "none, symmetric" : "none";
    case specials::nan:
      return "nan";
    case specials::ieee:
      return "ieee";
    case specials::fnuz:
      return "fnuz";
    case specials::extended:
      return "extended";
  }
  return "-";
}

// All codes that are NaN. They are the code of -0, or the magnitudes from some one up, which halving finds.
template <class F> std::string nan_codes_text() {
  constexpr auto spec = F::spec;
  if (!spec.has_nan()) return "-";
  if (!spec.is_nan(spec.magnitude_mask())) return code_text<F>(spec.nan_code());
  std::uint32_t below = 0, least = spec.magnitude_mask();
  while (least - below > 1) {
    std::uint32_t const middle = below + (least - below) / 2;
    (spec.is_nan(middle) ? least : below) = middle;
  }
  std::string text;
  for (std::uint32_t const sign : {0u, spec.sign_mask()}) {
    if (sign != 0 || text.empty()) {
      if (!text.empty()) text += ", ";
      if (least != spec.magnitude_mask()) text += code_text<F>(sign | least) + " to ";
      text += code_text<F>(sign | spec.magnitude_mask());
    }
  }
  return text;
}

template <class F> std::string infinity_codes_text() {
  constexpr auto spec = F::spec;
  if (!spec.has_infinity()) return "-";
  std::string const positive = code_text<F>(spec.infinity_code());
  return spec.is_signed ? positive + ", " + code_text<F>(spec.sign_mask() | spec.infinity_code()) : positive;
}

template <class F> std::string zero_text() {
  if (!F::spec.has_zero) return "none";
  return F::spec.has_negative_zero() ? "0 and -0" : "0";
}

template <class F> std::string format_row() {
  std::string row = "| " + in_code(name_of<F>()) + " | " + std::to_string(F::spec.bits()) + " | " + fields_text<F>();
  for (std::string const& cell :
       {exact(magnitude<F>(F::spec.max_ordinal())), least_normal_text<F>(), exact(least_of<F>()), zero_text<F>(),
        specials_text<F>(), nan_codes_text<F>(), infinity_codes_text<F>(), std::string{source<F>}})
    row += " | " + cell;
  return row + " |\n";
}

// ---- all codes of a small format ------------------------------------------------------------------------------------

template <class F> std::string value_text(std::uint32_t code) {
  if (F::spec.is_nan(code)) return "NaN";
  bool const negative = (code & F::spec.sign_mask()) != 0;
  if (F::spec.is_infinity(code)) return negative ? "-inf" : "inf";
  return decimal(loft::decode<F>(static_cast<loft::code<F>>(code)));
}

template <class F> std::string value_table() {
  std::string text = "\n### " + in_code(name_of<F>()) + "\n\n| code |";
  for (int i = 0; i < 8; ++i) text += " +" + std::to_string(i) + " |";
  text += "\n| --- |" + std::string(" ---: |") + " ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  for (std::uint32_t first = 0; first < 1u << F::spec.bits(); first += 8) {
    text += "| " + code_text<F>(first) + " |";
    for (std::uint32_t code = first; code < first + 8; ++code) text += " " + value_text<F>(code) + " |";
    text += "\n";
  }
  return text;
}

// ---- the table of block formats -------------------------------------------------------------------------------------

template <class B> std::string scale_text() {
  if constexpr (loft::detail::plain_scale<B>) return in_code(name_of<typename B::scale>());
  else return "levels, " + std::to_string(sizeof(loft::code<typename B::scale>)) + " bytes";
}

template <class B> std::string rule_text() {
  using rule = loft::default_rule<B>;
  if constexpr (requires { typename B::rule; }) return "its own";
  else if constexpr (std::is_same_v<rule, loft::ocp_floor>) return "`ocp_floor`";
  else if constexpr (std::is_same_v<rule, loft::two_level>) return "`two_level`";
  else if constexpr (std::is_same_v<rule, loft::division_scale>) return "`division_scale`";
  else return "-";
}

template <class B> std::string rounding_text() {
  using rounding = loft::default_rounding<B>;
  if constexpr (std::is_same_v<rounding, loft::nearest_even>) return "`nearest_even`";
  else if constexpr (std::is_same_v<rounding, loft::nearest_away>) return "`nearest_away`";
  else return "its own";
}

template <class B> std::string square_text() {
  if (loft::is_transposition_invariant<B>) return "it is one";
  if constexpr (requires { typename B::alternative; }) return "no";
  else if constexpr (requires { typename loft::square<B, 16>; }) return "`square<" + name_of<B>() + ", N>`";
  else return "no";
}

template <class B> std::string block_row() {
  std::string element = in_code(name_of<typename B::element>());
  if constexpr (requires { typename B::alternative; }) element += " or " + in_code(name_of<typename B::alternative>());
  loft::description bits;
  loft::detail::append(bits, loft::bits_per_element<B>);
  std::string row = "| " + in_code(name_of<B>());
  for (std::string const& cell :
       {element, scale_text<B>(), std::to_string(B::shape.rows) + " x " + std::to_string(B::shape.cols),
        std::string{bits.view()}, std::string{loft::has_tensor_scale<B> ? "float" : "-"}, rule_text<B>(),
        rounding_text<B>(), square_text<B>(), std::string{source<B>}})
    row += " | " + cell;
  return row + " |\n";
}

// ---- the page -------------------------------------------------------------------------------------------------------

constexpr char const* page_head =
    R"(<!-- Written by docs/generate/formats.cpp from the catalogue: edit that, and build the target docs. -->
# Formats

All number formats of `loft/number/formats.hpp` and all block formats of `loft/block/catalogue.hpp`, computed from their definitions.
What happens beyond the largest value, to NaN and to -0 is in [numerics.md](numerics.md).

## Number formats

A code is sign, exponent field and mantissa, from the top bit down; in memory of the library's calls it stands in the
low bits of an unsigned integer of 8, 16 or 32 bits, and packed in exactly its bits. Numbers are exact: `2^-9`,
`16777215 * 2^104`. *Specials* says what the top codes mean: `none`, all are finite (symmetric: two's complement, of
which the least code is never produced); `nan`, all ones below the sign is NaN; `ieee`, the top exponent holds
infinity and NaNs; `fnuz`, the code of -0 is the only NaN; `extended`, the code of -0 is NaN (in an unsigned format
the top code) and the largest magnitude left is infinity.

| format | bits | sign / exponent / mantissa | bias | largest | least normal | least positive | zero | specials | NaN | infinity | source |
| --- | ---: | --- | ---: | ---: | ---: | ---: | --- | --- | --- | --- | --- |
)";

constexpr char const* page_lines = R"(
The same as a picture: for up to 6 bits each row is scaled to the format's largest value, as a block's scale does it;
8-bit formats share a logarithmic axis.

![the values of every format of at most 8 bits](images/number-lines.svg)

## Values of the formats of at most 6 bits

A row holds eight codes; the code of a column is the row's plus the column's number.
)";

constexpr char const* page_blocks = R"(
## Block formats

*Bits* are those of an element with its share of the block's scale; a tensor scale comes on top, once a tensor.
*Square tiles* names the form on N x N tiles, with which the transposed tensor has the transposed codes and scales.
The default rule and rounding are those of `operand<B>` without further arguments.

| block format | element | scale | rows x columns | bits | tensor scale | default rule | default rounding | square tiles | source |
| --- | --- | --- | ---: | ---: | --- | --- | --- | --- | --- |
)";

std::string page() {
  std::string text = page_head;
  loft::all_formats::for_each([&]<class F>(F) { text += format_row<F>(); });
  text += page_lines;
  loft::all_formats::for_each([&]<class F>(F) {
    if constexpr (F::spec.bits() <= 6) text += value_table<F>();
  });
  text += page_blocks;
  loft::all_block_formats::for_each([&]<class B>(B) { text += block_row<B>(); });
  return text;
}

// ---- the picture ----------------------------------------------------------------------------------------------------

constexpr double left = 210, width = 880, right = left + width, row_height = 24, tick_height = 14;

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", x);
  return text;
}

std::string label(double x, double y, std::string_view anchor, std::string const& text) {
  std::string escaped;
  for (char const c : text) escaped += c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + std::string{anchor} + "\">" +
         escaped + "</text>\n";
}

std::string ticks(std::vector<double> const& places, double y, std::string_view kind) {
  if (places.empty()) return "";
  std::string path;
  for (double const x : places) path += "M" + number(x) + " " + number(y) + "v" + number(-tick_height);
  return "<path class=\"" + std::string{kind} + "\" d=\"" + path + "\"/>\n";
}

// One format: name, a line, a tick for each finite value >= 0 that `place_of` puts inside, the largest value.
template <class F, class Place> std::string line_of(double y, Place place_of) {
  std::vector<double> normal, subnormal;
  double const least_normal = std::exp2(F::spec.min_exponent());
  for (std::uint32_t i = 0; i <= F::spec.max_ordinal(); ++i) {
    double const value = magnitude<F>(i), x = place_of(value);
    if (x < left || x > right) continue;
    (value < least_normal && !F::spec.twos_complement ? subnormal : normal).push_back(x);
  }
  return label(left - 20, y - 2, "end", name_of<F>()) + "<path class=\"axis\" d=\"M" + number(left) + " " + number(y) +
         "h" + number(width) + "\"/>\n" + ticks(subnormal, y, "subnormal") + ticks(normal, y, "normal") +
         label(right + 20, y - 2, "start", exact(magnitude<F>(F::spec.max_ordinal())));
}

// A row of marks under a panel, and what its axis is.
std::string axis(double y, std::vector<double> const& places, std::vector<std::string> const& names,
                 std::string const& title) {
  std::string text;
  for (std::size_t i = 0; i < places.size(); ++i) {
    text += "<path class=\"axis\" d=\"M" + number(places[i]) + " " + number(y) + "v5\"/>\n";
    text += label(places[i], y + 19, "middle", names[i]);
  }
  return text + label(left + width / 2, y + 38, "middle", title);
}

// The formats of at most 6 bits, each scaled to its largest value.
std::string linear_panel(double& y) {
  std::string text =
      label(left, y, "start", "Formats of at most 6 bits, linear") + label(right + 20, y, "start", "largest");
  loft::all_formats::for_each([&]<class F>(F) {
    if constexpr (F::spec.bits() <= 6) {
      double const top = magnitude<F>(F::spec.max_ordinal());
      text += line_of<F>(y += row_height, [&](double value) { return left + width * value / top; });
    }
  });
  std::vector<double> places;
  std::vector<std::string> names;
  for (int i = 0; i <= 8; ++i) {
    places.push_back(left + width * i / 8);
    names.push_back(decimal(static_cast<float>(i) / 8));
  }
  return text + axis(y += 6, places, names, "value / largest finite value");
}

// The formats of 7 and 8 bits on a window of a logarithmic axis, which the scale formats exceed on both sides.
std::string logarithmic_panel(double& y) {
  constexpr int first = -24, last = 18;
  auto const place_of = [](double value) { return left + width * (std::log2(value) - first) / (last - first); };
  std::string text = label(left, y, "start", "Formats of 7 and 8 bits, logarithmic; an arrow where values go on") +
                     label(right + 20, y, "start", "largest");
  loft::all_formats::for_each([&]<class F>(F) {
    if constexpr (F::spec.bits() > 6 && F::spec.bits() <= 8) {
      text += line_of<F>(y += row_height, place_of);
      if (least_of<F>() < std::exp2(first)) text += label(left - 15, y - 2, "start", "\u2190");
      if (magnitude<F>(F::spec.max_ordinal()) > std::exp2(last)) text += label(right + 3, y - 2, "start", "\u2192");
    }
  });
  std::vector<double> places;
  std::vector<std::string> names;
  for (int e = first; e <= last; e += 3) {
    places.push_back(place_of(std::exp2(e)));
    names.push_back("2^" + std::to_string(e));
  }
  return text + axis(y += 6, places, names, "value");
}

std::string picture() {
  double y = 52;
  std::string body =
      ticks({left}, 24, "normal") + label(left + 8, 22, "start", "normal numbers, fixed-point numbers") +
      ticks({left + 280}, 24, "subnormal") +
      label(left + 288, 22, "start", "subnormal numbers and zero, which has no place on the logarithmic axis");
  body += linear_panel(y);
  y += 72;
  body += logarithmic_panel(y);
  std::string const size = number(right + 130) + " " + number(y + 52);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size +
         "\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#1f2937\">\n"
         "<title>The finite values from 0 up of every format of at most 8 bits</title>\n"
         "<style>.axis{stroke:#9ca3af;stroke-width:1}.normal{stroke:#1d4ed8;stroke-width:1}"
         ".subnormal{stroke:#ea580c;stroke-width:1}</style>\n"
         "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n" +
         body + "</svg>\n";
}

bool write(std::filesystem::path const& path, std::string const& text) {
  std::error_code failed;
  std::filesystem::create_directories(path.parent_path(), failed);
  std::ofstream file{path, std::ios::binary};
  file << text;
  file.close();
  if (!file) std::fprintf(stderr, "cannot write %s\n", path.string().c_str());
  return static_cast<bool>(file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: generate_formats <folder>\nwrites formats.md and images/number-lines.svg there\n");
    return 2;
  }
  std::filesystem::path const folder{argv[1]};
  return write(folder / "formats.md", page()) && write(folder / "images" / "number-lines.svg", picture()) ? 0 : 1;
}
