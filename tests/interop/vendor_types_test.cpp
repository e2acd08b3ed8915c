// SPDX-License-Identifier: Apache-2.0
// The vendors' storage types there and back; and encode and decode against CUDA's own conversions, where its headers
// are.
#include <doctest/doctest.h>

#include "loft/interop/hip_types.hpp"
#if __has_include(<cuda_fp8.h>)
#include "loft/interop/cuda_types.hpp"
#endif
#include "hip_stand_in.hpp"
#include "oracle_of.hpp"

namespace {

using test::tally;

// Every code, or for vectors many combinations, there and back.
template <class V> void check_round_trip() {
  using format = loft::detail::vendor_format<V>;
  constexpr int count = loft::detail::vendor_count<V>;
  CAPTURE(sizeof(V));
  static_assert(loft::VendorType<V> && std::is_trivially_copyable_v<V>);
  std::uint32_t const codes = 1u << format::spec.bits();
  tally wrong;
  for (std::uint32_t c = 0; c < codes; ++c) {
    loft::loft_type<V> x;
    std::uint64_t expected = 0;
    constexpr int width = static_cast<int>(sizeof(V) * 8 / count);
    for (int i = 0; i < count; ++i) {
      std::uint32_t const code = (c + static_cast<std::uint32_t>(i) * 37) % codes;
      expected |= std::uint64_t{code} << (i * width);
      auto const number = loft::minifloat<format>::from_bits(static_cast<loft::code<format>>(code));
      if constexpr (count == 1) x = number;
      else x[i] = number;
    }
    V const v = loft::to_vendor<V>(x);
    std::uint64_t bits = 0;
    std::memcpy(&bits, &v, sizeof v);
    wrong.add(c, bits == expected, 1);
    loft::loft_type<V> const back = loft::from_vendor(v);
    for (int i = 0; i < count; ++i) {
      if constexpr (count == 1) wrong.add(c, back.bits(), x.bits());
      else wrong.add(c, back[i].bits(), x[i].bits());
    }
  }
  CHECK_MESSAGE(wrong.wrong == 0, wrong.first());
}

struct not_a_vendors {
  std::uint8_t x;
};

}  // namespace

TEST_CASE_TEMPLATE("HIP's types there and back", V, __hip_fp8_e4m3, __hip_fp8x2_e4m3, __hip_fp8x4_e4m3, __hip_fp8_e5m2,
                   __hip_fp8x2_e5m2, __hip_fp8x4_e5m2, __hip_fp8_e4m3_fnuz, __hip_fp8x2_e4m3_fnuz,
                   __hip_fp8x4_e4m3_fnuz, __hip_fp8_e5m2_fnuz, __hip_fp8x2_e5m2_fnuz, __hip_fp8x4_e5m2_fnuz,
                   __hip_fp8_e8m0, __hip_fp6_e2m3, __hip_fp6_e3m2, __hip_fp4_e2m1, __hip_fp4x2_e2m1, __hip_bfloat16) {
  check_round_trip<V>();
}

TEST_CASE("types, order and unused bits") {
  static_assert(!loft::VendorType<float> && !loft::VendorType<not_a_vendors>);
  static_assert(std::is_same_v<loft::loft_type<__hip_fp8_e5m2_fnuz>, loft::e5m2fnuz_t>);
  constexpr auto one = loft::to_vendor<__hip_fp8_e4m3>(loft::e4m3_t{1.0f});
  static_assert(one.__x == 0x38 && loft::from_vendor(one) == loft::e4m3_t{1.0f});
  auto const pair = loft::from_vendor(__hip_fp4x2_e2m1{0x72});
  CHECK(static_cast<float>(pair[0]) == 1.0f);
  CHECK(static_cast<float>(pair[1]) == 6.0f);
  CHECK(loft::from_vendor(__hip_fp4_e2m1{0xf3}).bits() == 3);
  CHECK(loft::from_vendor(__hip_fp6_e2m3{0xc1}).bits() == 1);
  CHECK(loft::to_vendor<__hip_fp8x2_e5m2>({{loft::e5m2_t{1.0f}, loft::e5m2_t{-2.0f}}}).__x == 0xc03c);
}

#if __has_include(<cuda_fp8.h>)

namespace {

using loft::overflow;

// What CUDA makes of a source, by the name of the conversion.
template <class F> constexpr auto fp8_kind = std::is_same_v<F, loft::e4m3> ? __NV_E4M3 : __NV_E5M2;
template <class F> constexpr auto fp6_kind = std::is_same_v<F, loft::e2m3> ? __NV_E2M3 : __NV_E3M2;

template <class T> auto raw(T x) {
  using vendor = std::conditional_t<std::is_same_v<T, loft::bf16_t>, __nv_bfloat16_raw, __half_raw>;
  return loft::bit_cast<vendor>(x);
}

template <class F, overflow O, class T> std::uint32_t cuda_fp8(T x) {
  constexpr auto saturate = O == overflow::saturate ? __NV_SATFINITE : __NV_NOSAT;
  if constexpr (std::is_same_v<T, float>) return __nv_cvt_float_to_fp8(x, saturate, fp8_kind<F>);
  else if constexpr (std::is_same_v<T, double>) return __nv_cvt_double_to_fp8(x, saturate, fp8_kind<F>);
  else if constexpr (std::is_same_v<T, loft::bf16_t>) return __nv_cvt_bfloat16raw_to_fp8(raw(x), saturate, fp8_kind<F>);
  else return __nv_cvt_halfraw_to_fp8(raw(x), saturate, fp8_kind<F>);
}
template <class F, class T> std::uint32_t cuda_fp6(T x, cudaRoundMode mode) {
  if constexpr (std::is_same_v<T, float>) return __nv_cvt_float_to_fp6(x, fp6_kind<F>, mode);
  else if constexpr (std::is_same_v<T, double>) return __nv_cvt_double_to_fp6(x, fp6_kind<F>, mode);
  else if constexpr (std::is_same_v<T, loft::bf16_t>) return __nv_cvt_bfloat16raw_to_fp6(raw(x), fp6_kind<F>, mode);
  else return __nv_cvt_halfraw_to_fp6(raw(x), fp6_kind<F>, mode);
}
template <class T> std::uint32_t cuda_fp4(T x, cudaRoundMode mode) {
  if constexpr (std::is_same_v<T, float>) return __nv_cvt_float_to_fp4(x, __NV_E2M1, mode);
  else if constexpr (std::is_same_v<T, double>) return __nv_cvt_double_to_fp4(x, __NV_E2M1, mode);
  else if constexpr (std::is_same_v<T, loft::bf16_t>) return __nv_cvt_bfloat16raw_to_fp4(raw(x), __NV_E2M1, mode);
  else return __nv_cvt_halfraw_to_fp4(raw(x), __NV_E2M1, mode);
}
template <overflow O, class T> std::uint32_t cuda_e8m0(T x, cudaRoundMode mode) {
  constexpr auto saturate = O == overflow::saturate ? __NV_SATFINITE : __NV_NOSAT;
  if constexpr (std::is_same_v<T, float>) return __nv_cvt_float_to_e8m0(x, saturate, mode);
  else if constexpr (std::is_same_v<T, double>) return __nv_cvt_double_to_e8m0(x, saturate, mode);
  else return __nv_cvt_bfloat16raw_to_e8m0(raw(x), saturate, mode);
}

// All values of the 16-bit formats; of float a stride over all bit patterns, and every code of the formats here and
// every midpoint with its neighbours; of double likewise, without NaN, which is compared apart.
template <class T> std::vector<T> all_of_16_bits() {
  std::vector<T> x;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) x.push_back(T::from_bits(static_cast<std::uint16_t>(bits)));
  return x;
}
template <class T> void add_edges(std::vector<T>& x) {
  auto const edges = [&]<class F>(F) {
    std::uint32_t const codes = 1u << F::spec.bits();
    for (std::uint32_t c = 0; c + 1 < codes; ++c) {
      auto const a = static_cast<T>(loft::decode<F>(static_cast<loft::code<F>>(c)));
      auto const b = static_cast<T>(loft::decode<F>(static_cast<loft::code<F>>(c + 1)));
      // Above the largest finite value, as if there were one more.
      T const next =
          std::isfinite(b) ? b : a + (a - static_cast<T>(loft::decode<F>(static_cast<loft::code<F>>(c - 1))));
      if (!std::isfinite(a)) continue;
      for (T const edge : {a, (a + next) / 2, next})
        for (T const v : {std::nextafter(edge, T(-HUGE_VAL)), edge, std::nextafter(edge, T(HUGE_VAL))}) x.push_back(v);
    }
  };
  edges(loft::e4m3{}), edges(loft::e5m2{}), edges(loft::e2m3{}), edges(loft::e3m2{}), edges(loft::e2m1{}),
      edges(loft::e8m0{});
  for (T const v : {T(HUGE_VAL), T(-HUGE_VAL), std::numeric_limits<T>::max(), std::numeric_limits<T>::denorm_min()})
    x.push_back(v);
}
std::vector<float> floats() {
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < 0x1'0000'0000; bits += 16411)
    x.push_back(test::float_of(static_cast<std::uint32_t>(bits)));
  add_edges(x);
  for (float const v : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN()})
    x.push_back(v);
  return x;
}
std::vector<double> doubles() {
  std::vector<double> x;
  for (std::uint64_t high = 0; high < 0x10000; ++high) {
    std::uint64_t const bits = high << 48 | high * 0x1234'5678'9abd % (std::uint64_t{1} << 48);
    if (!std::isnan(loft::bit_cast<double>(bits))) x.push_back(loft::bit_cast<double>(bits));
  }
  add_edges(x);
  return x;
}

template <class T> std::vector<T> const& sources() {
  static std::vector<T> const x = [] {
    if constexpr (std::is_same_v<T, float>) return floats();
    else if constexpr (std::is_same_v<T, double>) return doubles();
    else return all_of_16_bits<T>();
  }();
  return x;
}

// Compares `library(x)` with `vendor(x)` on the sources of T that `included(x)` holds for.
template <class T, class Library, class Vendor, class Included>
tally compare(Library library, Vendor vendor, Included included) {
  tally count;
  for (T const x : sources<T>())
    if (included(static_cast<double>(x))) count.add(static_cast<double>(x), library(x), vendor(x));
  return count;
}
constexpr auto everything = [](double) { return true; };

template <class T, class Library, class Vendor, class Included>
void check(Library library, Vendor vendor, Included included) {
  CAPTURE(sizeof(T));
  tally const count = compare<T>(library, vendor, included);
  CHECK_MESSAGE(count.wrong == 0, count.first());
  CHECK(count.compared > 10000);
}

template <class F, overflow O> void check_fp8() {
  auto const each = [](auto zero) {
    using source = decltype(zero);
    check<source>([](source x) { return loft::encode<F, O>(x); }, [](source x) { return cuda_fp8<F, O>(x); },
                  everything);
  };
  each(0.0f), each(0.0), each(loft::bf16_t{}), each(loft::fp16_t{});
}

template <class F, class Rounding, class Vendor> void check_small(Rounding rounding, Vendor vendor) {
  auto const each = [&](auto zero) {
    using source = decltype(zero);
    check<source>([&](source x) { return loft::encode<F>(x, rounding); }, vendor, everything);
  };
  each(0.0f), each(0.0), each(loft::bf16_t{}), each(loft::fp16_t{});
}

template <class V> void check_decode(auto vendor) {
  using format = loft::detail::vendor_format<V>;
  tally count;
  for (std::uint32_t c = 0; c < 1u << format::spec.bits(); ++c) {
    float const got = loft::decode<format>(static_cast<loft::code<format>>(c)),
                expected = vendor(static_cast<std::uint8_t>(c));
    count.add(c, test::same(got, expected), 1);
  }
  CHECK_MESSAGE(count.wrong == 0, count.first());
}
float value_of(__half_raw x) { return static_cast<float>(loft::from_vendor(__half{x})); }

}  // namespace

TEST_CASE_TEMPLATE("CUDA's types there and back", V, __half, __nv_bfloat16, __nv_fp8_e4m3, __nv_fp8x2_e4m3,
                   __nv_fp8x4_e4m3, __nv_fp8_e5m2, __nv_fp8x2_e5m2, __nv_fp8x4_e5m2, __nv_fp8_e8m0, __nv_fp8x2_e8m0,
                   __nv_fp8x4_e8m0, __nv_fp6_e2m3, __nv_fp6x2_e2m3, __nv_fp6x4_e2m3, __nv_fp6_e3m2, __nv_fp6x2_e3m2,
                   __nv_fp6x4_e3m2, __nv_fp4_e2m1, __nv_fp4x2_e2m1, __nv_fp4x4_e2m1) {
  check_round_trip<V>();
}

TEST_CASE("vectors hold their elements in CUDA's order") {
  auto const four = loft::from_vendor(__nv_fp4x4_e2m1{float4{0.5f, 1.0f, -6.0f, 3.0f}});
  auto const six = loft::from_vendor(__nv_fp6x4_e2m3{float4{0.125f, 1.0f, -7.5f, 3.0f}});
  auto const eight = loft::from_vendor(__nv_fp8x4_e4m3{float4{0.5f, 448.0f, -6.0f, 3.0f}});
  float const expected[3][4] = {{0.5f, 1.0f, -6.0f, 3.0f}, {0.125f, 1.0f, -7.5f, 3.0f}, {0.5f, 448.0f, -6.0f, 3.0f}};
  for (int i = 0; i < 4; ++i) {
    CHECK(static_cast<float>(four[i]) == expected[0][i]);
    CHECK(static_cast<float>(six[i]) == expected[1][i]);
    CHECK(static_cast<float>(eight[i]) == expected[2][i]);
  }
}

TEST_CASE("E4M3 and E5M2, saturating and not, from float, double, bf16 and fp16") {
  check_fp8<loft::e4m3, overflow::saturate>();
  check_fp8<loft::e4m3, overflow::special>();
  check_fp8<loft::e5m2, overflow::saturate>();
  check_fp8<loft::e5m2, overflow::special>();
}

TEST_CASE("E2M1, E2M3 and E3M2, to nearest and toward zero") {
  auto const fp4 = [](cudaRoundMode mode) { return [mode](auto x) { return cuda_fp4(x, mode); }; };
  auto const e2m3 = [](cudaRoundMode mode) { return [mode](auto x) { return cuda_fp6<loft::e2m3>(x, mode); }; };
  auto const e3m2 = [](cudaRoundMode mode) { return [mode](auto x) { return cuda_fp6<loft::e3m2>(x, mode); }; };
  check_small<loft::e2m1>(loft::nearest_even{}, fp4(cudaRoundNearest));
  check_small<loft::e2m1>(loft::toward_zero{}, fp4(cudaRoundZero));
  check_small<loft::e2m3>(loft::nearest_even{}, e2m3(cudaRoundNearest));
  check_small<loft::e2m3>(loft::toward_zero{}, e2m3(cudaRoundZero));
  check_small<loft::e3m2>(loft::nearest_even{}, e3m2(cudaRoundNearest));
  check_small<loft::e3m2>(loft::toward_zero{}, e3m2(cudaRoundZero));
}

TEST_CASE("E8M0 toward zero and up, for values that are not negative") {
  // Decided otherwise (decision 5): CUDA takes the magnitude of a negative value; here the format is unsigned and has
  // none.
  auto const included = [](double x) { return !(x < 0); };
  auto const each = [&]<overflow O>(auto zero, std::integral_constant<overflow, O>) {
    using source = decltype(zero);
    check<source>([](source x) { return loft::encode<loft::e8m0, O>(x, loft::toward_zero{}); },
                  [](source x) { return cuda_e8m0<O>(x, cudaRoundZero); }, included);
    check<source>([](source x) { return loft::encode<loft::e8m0, O>(x, loft::upward{}); },
                  [](source x) { return cuda_e8m0<O>(x, cudaRoundPosInf); }, included);
  };
  std::integral_constant<overflow, overflow::saturate> const saturate;
  std::integral_constant<overflow, overflow::special> const special;
  each(0.0f, saturate), each(0.0, saturate), each(loft::bf16_t{}, saturate);
  each(0.0f, special), each(0.0, special), each(loft::bf16_t{}, special);
}

TEST_CASE("what is decided otherwise than CUDA does") {
  using loft::encode;
  // Decision 5: negative values of E8M0.
  CHECK(cuda_e8m0<overflow::saturate>(-4.0f, cudaRoundZero) == 0x81);
  CHECK(encode<loft::e8m0>(-4.0f, loft::toward_zero{}) == 0x00);
  CHECK(encode<loft::e8m0, overflow::special>(-4.0f, loft::toward_zero{}) == 0xff);
  // Decision 3: every NaN becomes the canonical one. CUDA does so from float, and from double keeps the sign.
  double const minus_nan = -std::numeric_limits<double>::quiet_NaN();
  CHECK(cuda_fp8<loft::e4m3, overflow::saturate>(minus_nan) == 0xff);
  CHECK(encode<loft::e4m3>(minus_nan) == 0x7f);
  CHECK(cuda_fp8<loft::e5m2, overflow::saturate>(minus_nan) == 0xfe);
  CHECK(encode<loft::e5m2>(minus_nan) == 0x7f);
  // Decision 1: to nearest, which CUDA does not offer for E8M0.
  CHECK(encode<loft::e8m0>(3.0f) == 0x80);
  CHECK(loft::from_vendor(__nv_fp8_e8m0{3.0f}).bits() == 0x81);
}

TEST_CASE("decoding every code") {
  check_decode<__nv_fp8_e4m3>([](std::uint8_t c) { return value_of(__nv_cvt_fp8_to_halfraw(c, __NV_E4M3)); });
  check_decode<__nv_fp8_e5m2>([](std::uint8_t c) { return value_of(__nv_cvt_fp8_to_halfraw(c, __NV_E5M2)); });
  check_decode<__nv_fp6_e2m3>([](std::uint8_t c) { return value_of(__nv_cvt_fp6_to_halfraw(c, __NV_E2M3)); });
  check_decode<__nv_fp6_e3m2>([](std::uint8_t c) { return value_of(__nv_cvt_fp6_to_halfraw(c, __NV_E3M2)); });
  check_decode<__nv_fp4_e2m1>([](std::uint8_t c) { return value_of(__nv_cvt_fp4_to_halfraw(c, __NV_E2M1)); });
  check_decode<__nv_fp8_e8m0>(
      [](std::uint8_t c) { return static_cast<float>(loft::from_vendor(__nv_bfloat16{__nv_cvt_e8m0_to_bf16raw(c)})); });
  tally halves;
  for (loft::fp16_t const x : sources<loft::fp16_t>())
    halves.add(x.bits(), test::same(static_cast<float>(x), __half2float(loft::to_vendor<__half>(x))), 1);
  CHECK_MESSAGE(halves.wrong == 0, halves.first());
}

TEST_CASE("fp16 and bf16 from float and double") {
  auto const to_half = [](auto x) { return std::uint32_t{loft::from_vendor(__float2half_rn(x)).bits()}; };
  auto const to_half_from_double = [](double x) { return std::uint32_t{loft::from_vendor(__double2half(x)).bits()}; };
  auto const bfloat = [](float x) { return std::uint32_t{loft::from_vendor(__float2bfloat16_rn(x)).bits()}; };
  check<float>([](float x) { return loft::encode<loft::fp16, overflow::special>(x); }, to_half, everything);
  check<double>([](double x) { return loft::encode<loft::fp16, overflow::special>(x); }, to_half_from_double,
                everything);
  check<float>([](float x) { return loft::encode<loft::bf16, overflow::special>(x); }, bfloat, everything);
}

TEST_CASE("the comparison sees another rounding and another overflow") {
  auto const nearest = [](float x) { return cuda_fp4(x, cudaRoundNearest); };
  CHECK(compare<float>([](float x) { return loft::encode<loft::e2m1>(x, loft::toward_zero{}); }, nearest, everything)
            .wrong > 0);
  auto const saturated = [](float x) { return cuda_fp8<loft::e4m3, overflow::saturate>(x); };
  CHECK(compare<float>([](float x) { return loft::encode<loft::e4m3, overflow::special>(x); }, saturated, everything)
            .wrong > 0);
}

#else

TEST_CASE("the comparison with CUDA is skipped") {
  MESSAGE("cuda_fp8.h was not found: nothing was compared with CUDA");
}

#endif
