// SPDX-License-Identifier: Apache-2.0
// Builds that flush subnormals: what gives the same bits with and without, and where the others start to differ.
// The flush bits of x86-64 are set and cleared around the same calls; where they are not, the cases are left out aloud.
#include <doctest/doctest.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "block_check.hpp"
#include "loft/loft.hpp"
#include "tensor/any_buffers.hpp"

namespace {

using loft::status;
using test::any_buffers, test::content, test::contents, test::shape, test::tensor, test::view_of;

/// While it lives, and if it is told so, subnormal results become 0 and subnormal operands count as 0.
class flushing {
 public:
#if defined(__SSE__)
  static constexpr bool possible = true;
  explicit flushing(bool wanted) : before_{_mm_getcsr()} {
    _mm_setcsr(wanted ? before_ | 0x8040u : before_ & ~0x8040u);
  }
  ~flushing() { _mm_setcsr(before_); }
#else
  static constexpr bool possible = false;
  explicit flushing(bool) {}
  ~flushing() {}
#endif
  flushing(flushing const&) = delete;
  flushing& operator=(flushing const&) = delete;

 private:
  [[maybe_unused]] unsigned before_ = 0;
};

bool left_out() {
  if (!flushing::possible) MESSAGE("left out: this machine has no flush bits that the test knows");
  return !flushing::possible;
}

constexpr float least_normal = 0x1p-126f;

/// All that a tensor becomes: buffers, and the floats that they decode to.
template <class B> struct outcome {
  any_buffers<B> q;
  std::vector<float> values, faked;
  bool done = false;
};

// Not inlined, so that no sum or product moves out of the reach of the flush bits.
template <class Operand, class T>
[[gnu::noinline]] void run(std::vector<T> const& x, shape s, Operand const& how,
                           outcome<typename Operand::format>& to) {
  loft::matrix_view<float> const out{to.values.data(), s.rows, s.cols, s.cols};
  loft::matrix_view<float> const again{to.faked.data(), s.rows, s.cols, s.cols};
  to.done = loft::quantize(view_of(x, s), to.q.view(), how) == status::ok &&
            loft::dequantize(to.q.view(), out, how) == status::ok &&
            loft::fake_quantize(view_of(x, s), again, how) == status::ok;
}

template <class Operand, class T>
outcome<typename Operand::format> outcome_of(bool flush, std::vector<T> const& x, shape s, Operand const& how) {
  outcome<typename Operand::format> result{
      {s.rows, s.cols}, std::vector<float>(x.size()), std::vector<float>(x.size())};
  flushing const here{flush};
  run(x, s, how, result);
  return result;
}

/// Elements of two lists whose bits differ; NaN equals NaN.
int differing(std::vector<float> const& a, std::vector<float> const& b) {
  int count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += !test::same(a[i], b[i]);
  return count;
}

/// `flushed` is `kept` with its subnormal numbers replaced by zeros of their sign.
int differing_but_for_subnormals(std::vector<float> const& flushed, std::vector<float> const& kept) {
  int count = 0;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    bool const tiny = (test::bits_of(kept[i]) & 0x7fffffffu) < 0x00800000u;
    count += !test::same(flushed[i], kept[i]) &&
             !(tiny && test::bits_of(flushed[i]) == (test::bits_of(kept[i]) & 0x80000000u));
  }
  return count;
}

template <class Operand, class T> void check_same_bits(std::vector<T> const& x, shape s, Operand const& how) {
  auto const kept = outcome_of(false, x, s, how), flushed = outcome_of(true, x, s, how);
  CHECK(kept.done);
  CHECK(flushed.done);
  CHECK(kept.q == flushed.q);
  CHECK(differing(kept.values, flushed.values) == 0);
  CHECK(differing(kept.faked, flushed.faked) == 0);
}

/// Every kind of tensor as T, float or narrower.
template <class T = float, class Operand> void check_all_tensors(Operand const& how) {
  for (content const kind : contents) {
    for (shape const s : {shape{1, 16}, shape{3, 96}, shape{33, 70}}) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(s.cols);
      std::vector<T> x;
      for (float const v : tensor(kind, s)) x.push_back(T{v});
      check_same_bits(x, s, how);
    }
  }
}

// Volatile, so that the product is taken where it stands.
float product_of(float a, float b) {
  float const volatile first = a, product = first * b;
  return product;
}

/// Normal floats and zeros of all sizes below 2^most; of each run of `run`, those below a power of two of its own.
std::vector<float> all_sizes(int most, shape s, int run) {
  test::noise next{2024};
  std::vector<float> x;
  int highest = most;
  for (std::int64_t i = 0; i < s.rows * s.cols; ++i) {
    if (i % run == 0) highest = -126 + static_cast<int>(next() % static_cast<std::uint32_t>(most + 127));
    float const v = next.value(std::max(highest - 12, -126), highest);
    x.push_back(std::fabs(v) < least_normal ? std::copysign(0.0f, v) : v);
  }
  return x;
}

template <class F> [[gnu::noinline]] std::pair<std::uint32_t, std::uint32_t> codes_of(float x, double y) {
  return {loft::encode<F>(x, loft::to_odd{}), loft::encode<F, loft::overflow::special>(y)};
}
template <class F> [[gnu::noinline]] float value_of(loft::code<F> c) { return loft::decode<F>(c); }

template <class F> int codes_that_differ() {
  int count = 0;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 65521) {
    float const x = test::float_of(static_cast<std::uint32_t>(bits));
    double const y = 0x1.000001p0 * static_cast<double>(x);
    auto const codes = [&](bool flush) {
      flushing const here{flush};
      return codes_of<F>(x, y);
    };
    count += codes(false) != codes(true);
  }
  return count;
}

}  // namespace

TEST_CASE("the flush bits do what the other cases rely on") {
  if (left_out()) return;
  auto const product = [](bool flush) {
    flushing const here{flush};
    return test::bits_of(product_of(least_normal, 0.5f));
  };
  CHECK(product(false) == 0x00400000u);
  CHECK(product(true) == 0);
}

TEST_CASE("encode and decode give the same bits in a build that flushes subnormals") {
  if (left_out()) return;
  loft::all_formats::for_each([]<class F>(F) {
    CAPTURE(F::spec.bits());
    CHECK(codes_that_differ<F>() == 0);
    if constexpr (F::spec.bits() <= 16) {
      int wrong = 0;
      for (std::uint32_t c = 0; c < 1u << F::spec.bits(); ++c) {
        auto const value = [&](bool flush) {
          flushing const here{flush};
          return test::bits_of(value_of<F>(static_cast<loft::code<F>>(c)));
        };
        wrong += value(false) != value(true);
      }
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("scales that are powers of two, and HiF4, give the same bits in a build that flushes subnormals") {
  if (left_out()) return;
  int formats = 0;
  loft::all_block_formats::for_each([&]<class B>(B) {
    CAPTURE(B::element::spec.bits());
    if constexpr (loft::detail::is_power_of_two_format<typename B::scale>) {
      ++formats;
      check_all_tensors(loft::operand<B>{});
      check_all_tensors<loft::bf16_t>(loft::operand<B>{});
      check_all_tensors(loft::operand<B, loft::ocp_floor, loft::stochastic<16>>{.rounding = {1, 2}});
      check_all_tensors(loft::operand<B, loft::ceil_scale>{});
      check_all_tensors(loft::operand<B, loft::even_scale, loft::to_odd>{});
      check_all_tensors(loft::operand<B, loft::nearest_scale>{});
      check_all_tensors(loft::operand<B, loft::fixed_scale>{.rule = {0x1p-127f}});
    }
  });
  CHECK(formats >= 6);
  check_all_tensors(loft::operand<loft::square<loft::mxfp4, 32>>{});
  check_all_tensors(loft::operand<loft::hif4>{});
  check_all_tensors<loft::bf16_t>(loft::operand<loft::hif4>{});
}

namespace {

// Two levels with s_dec = `decode`, a power of two: same codes and scales, and the values but for subnormal ones.
template <class B> void check_two_levels(float decode, bool same) {
  CAPTURE(decode);
  shape const s{40, 16 * B::shape.cols};
  loft::operand<B> how{};
  how.rule.amax = loft::largest<typename B::element> * 448.0f * decode;
  std::vector<float> const x = all_sizes(std::ilogb(how.rule.amax), s, B::shape.cols);
  auto const kept = outcome_of(false, x, s, how), flushed = outcome_of(true, x, s, how);
  REQUIRE(kept.done);
  REQUIRE(flushed.done);
  CHECK((kept.q == flushed.q) == same);
  CHECK((differing_but_for_subnormals(flushed.values, kept.values) == 0) == same);
  CHECK((differing_but_for_subnormals(flushed.faked, kept.faked) == 0) == same);
  if (decode < least_normal) {
    CHECK(flushed.q.tensor_scale == 0);
    int alive = 0;
    for (float const y : flushed.values) alive += (test::bits_of(y) & 0x7fffffffu) != 0;
    CHECK(alive == 0);
  }
}

}  // namespace

TEST_CASE_TEMPLATE("two levels give the same codes and scales while the least product of scales is a normal float", B,
                   loft::nvfp4, loft::nvint4) {
  if (left_out()) return;
  for (float const decode : {0x1p-117f, 0x1p-116f, 0x1p-60f, 1.0f, 0x1p60f}) check_two_levels<B>(decode, true);
  for (float const decode : {0x1p-118f, 0x1p-126f, 0x1p-127f}) check_two_levels<B>(decode, false);  // the control
}

TEST_CASE("float scales give the same codes while they are normal floats") {
  if (left_out()) return;
  shape const s{4, 512};
  for (int e : {-117, -110, -60, 0, 60}) {  // 448 * 2^-126 is below 2^-117
    CAPTURE(e);
    std::vector<float> x = all_sizes(e, s, 16);
    for (std::size_t i = 0; i < x.size(); i += 128) x[i] = std::ldexp(1.0f, e);  // the largest of its block
    auto const kept = outcome_of(false, x, s, loft::operand<loft::fp8_1x128>{});
    auto const flushed = outcome_of(true, x, s, loft::operand<loft::fp8_1x128>{});
    CHECK(kept.q == flushed.q);
    CHECK(differing_but_for_subnormals(flushed.values, kept.values) == 0);
  }
  std::vector<float> const tiny(512, 0x1p-119f);
  auto const flushed = outcome_of(true, tiny, {1, 512}, loft::operand<loft::fp8_1x128>{});
  CHECK(flushed.values == std::vector<float>(512, 0.0f));  // the control, and what the page says of it
  CHECK(outcome_of(false, tiny, {1, 512}, loft::operand<loft::fp8_1x128>{}).values[0] > 0);
}

TEST_CASE("numbers of ordinary size give the same bits in a build that flushes subnormals, whatever the rule") {
  if (left_out()) return;
  for (shape const s : {shape{1, 16}, shape{3, 96}, shape{33, 160}}) {
    std::vector<float> const x = tensor(content::ordinary, s);
    loft::all_block_formats::for_each([&]<class B>(B) {
      check_same_bits(x, s, loft::operand<B>{});
      check_same_bits(x, s, loft::operand<B, loft::default_rule<B>, loft::stochastic<8>, loft::hadamard<16>>{});
    });
    check_same_bits(x, s, loft::operand<loft::nvfp4, loft::four_over_six<>>{});
    check_same_bits(x, s, loft::operand<loft::nvfp4, loft::four_over_six<loft::absolute_error>>{});
    check_same_bits(x, s, loft::operand<loft::mxfp4, loft::floor_four_thirds>{});
    check_same_bits(x, s, loft::operand<loft::mxfp4, loft::quest_scale>{});
  }
}
