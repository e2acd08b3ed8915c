// SPDX-License-Identifier: Apache-2.0
// What calls on tensors refuse: every status has calls that return it, and leave all outputs as they were; each stands
// beside a twin that is accepted. And what the calls never do: allocate.
#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>
#include <limits>
#include <new>
#include <set>
#include <string>

#include "any_buffers.hpp"
#include "block/block_check.hpp"
#include "loft/loft.hpp"

namespace {

std::int64_t allocations = 0;

}  // namespace

// Not inlined: g++ 12 would see malloc meet delete, and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  std::abort();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using loft::row_range, loft::status;
using test::any_buffers, test::infinity, test::not_a_number;

constexpr float poison = -5.0f;
constexpr std::int64_t rows = 40, cols = 48;

// A format with all that can be refused: a tensor scale, a known amax, tiles of several rows; and its neighbours.
using tiles = loft::square<loft::nvfp4, 16>;
using plain_tiles = loft::operand<tiles>;

/// One input and all outputs that calls write, poisoned.
template <class B> struct fixture {
  std::vector<float> x = std::vector<float>(rows * cols, 1.5f), y = std::vector<float>(4 * rows * cols, poison);
  any_buffers<B> q{rows, cols};
  float amax = poison;
  loft::matrix_view<float const> in{x.data(), rows, cols, cols};
  loft::matrix_view<float> to{y.data(), rows, cols, cols};

  [[nodiscard]] bool untouched() const {
    return q.untouched() && amax == poison && y == std::vector<float>(y.size(), poison);
  }
};

/// Calls of one kind with the status that they must return, checked at once.
struct refusals {
  std::set<status> seen;

  template <class B> void expect(status wanted, fixture<B>& f, std::function<status(fixture<B>&)> const& call) {
    status const got = call(f);
    CAPTURE(loft::message(wanted));
    CAPTURE(loft::message(got));
    CHECK(got == wanted);
    CHECK(f.untouched());
    seen.insert(got);
  }
  // The four calls that take a range or an operand, on views that the caller changed.
  template <class Operand>
  void expect_of_all(status wanted, fixture<typename Operand::format>& f, Operand const& how, row_range range = {}) {
    using B = typename Operand::format;
    expect<B>(wanted, f, [&](auto& g) { return loft::quantize(g.in, g.q.view(), how, range); });
    expect<B>(wanted, f, [&](auto& g) {
      auto const q = g.q.view();
      loft::quantized_view<B, loft::tiled_128x4> const tiled{q.codes, q.scales, q.tensor_scale, q.rows, q.cols};
      return loft::quantize(g.in, tiled, how, range);
    });
    expect<B>(wanted, f, [&](auto& g) { return loft::dequantize(g.q.view(), g.to, how, range); });
    expect<B>(wanted, f, [&](auto& g) { return loft::fake_quantize(g.in, g.to, how, range); });
  }
};

/// An output of fixture<tiles> with other extents and strides.
status into(fixture<tiles>& f, loft::matrix_view<float> out) {
  any_buffers<tiles> q(out.rows, out.cols);
  status const a =
      loft::fake_quantize(loft::matrix_view<float const>{f.x.data(), out.rows, out.cols, 0, 0}, out, plain_tiles{});
  status const b = loft::dequantize(q.view(), out, plain_tiles{});
  CHECK(a == b);
  return a;
}

}  // namespace

TEST_CASE("pointers, extents and shapes") {
  refusals r;
  fixture<tiles> f;
  plain_tiles const how{};
  float* const nothing = nullptr;
  r.expect<tiles>(status::null_pointer, f, [&](auto& g) {
    return loft::quantize(loft::matrix_view<float const>{nothing, rows, cols, cols}, g.q.view(), how);
  });
  r.expect<tiles>(status::null_pointer, f, [&](auto& g) {
    return loft::dequantize(g.q.view(), loft::matrix_view<float>{nothing, rows, cols, cols}, how);
  });
  r.expect<tiles>(status::null_pointer, f, [&](auto& g) {
    return loft::tensor_amax(loft::matrix_view<float const>{nothing, rows, cols, cols}, how, g.amax);
  });
  r.expect<tiles>(status::missing_tensor_scale, f, [&](auto& g) {
    auto view = g.q.view();
    view.tensor_scale = nullptr;
    return loft::quantize(g.in, view, how);
  });
  for (loft::matrix_view<float const> const other :
       {loft::matrix_view<float const>{f.x.data(), rows - 1, cols, cols}, {f.x.data(), rows, cols - 1, cols}}) {
    r.expect<tiles>(status::shape_mismatch, f, [&](auto& g) { return loft::quantize(other, g.q.view(), how); });
    r.expect<tiles>(status::shape_mismatch, f, [&](auto& g) { return loft::fake_quantize(other, g.to, how); });
  }
  // Rows times columns: 2^58 elements are counted, one more is not. The twin is refused for its null pointer only.
  constexpr std::int64_t large = std::int64_t{1} << 29, huge = std::numeric_limits<std::int64_t>::max();
  struct extents {
    std::int64_t rows, cols;
    status outcome;
  };
  for (extents const e :
       {extents{large, large, status::null_pointer}, extents{large, large + 1, status::extent_overflow},
        extents{large + 1, large, status::extent_overflow}, extents{huge, huge, status::extent_overflow},
        extents{1, huge, status::extent_overflow}, extents{-1, cols, status::negative_extent},
        extents{rows, -1, status::negative_extent}, extents{-huge, -huge, status::negative_extent}}) {
    CAPTURE(e.rows);
    CAPTURE(e.cols);
    loft::matrix_view<float const> const from{nothing, e.rows, e.cols, 1, 1};
    loft::matrix_view<float> const out{nothing, e.rows, e.cols, 1, 1};
    loft::quantized_view<tiles> const q{nullptr, nullptr, nullptr, e.rows, e.cols};
    r.expect<tiles>(e.outcome, f, [&](auto&) { return loft::quantize(from, q, how); });
    r.expect<tiles>(e.outcome, f, [&](auto&) { return loft::dequantize(q, out, how); });
    r.expect<tiles>(e.outcome, f, [&](auto&) { return loft::fake_quantize(from, out, how); });
    r.expect<tiles>(e.outcome, f, [&](auto& g) { return loft::tensor_amax(from, how, g.amax); });
  }
  CHECK(r.seen == std::set<status>{status::null_pointer, status::missing_tensor_scale, status::shape_mismatch,
                                   status::extent_overflow, status::negative_extent});
  CHECK(loft::quantize(f.in, f.q.view(), how) == status::ok);
  CHECK(!f.untouched());
}

TEST_CASE("outputs whose elements share memory") {
  refusals r;
  fixture<tiles> f;
  float* const y = f.y.data();
  float* const middle = y + 2 * rows * cols;
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  for (loft::matrix_view<float> const out : {loft::matrix_view<float>{y, 4, 6, 0, 1},
                                             {y, 4, 6, 6, 0},
                                             {y, 4, 6, 0, 0},
                                             {y, 4, 6, 5, 1},
                                             {y, 4, 6, 1, 3},
                                             {y, 4, 6, 2, 2},
                                             {y, 4, 6, 9, 6},
                                             {middle, 4, 6, -5, 1},
                                             {middle, 4, 6, 5, -1},
                                             {y, 4, 6, 10, 4},
                                             {middle, 2, 2, least, least},
                                             {y, 1, 6, 9, 0},
                                             {y, 4, 1, 0, 9}}) {
    CAPTURE(out.row_stride);
    CAPTURE(out.col_stride);
    r.expect<tiles>(status::overlapping_output, f, [&](auto& g) { return into(g, out); });
  }
  for (loft::matrix_view<float> const out : {loft::matrix_view<float>{y, 4, 6, 6, 1},
                                             {y, 4, 6, 1, 4},
                                             {y, 4, 6, 3, 4},
                                             {middle, 4, 6, -6, 1},
                                             {middle, 4, 6, 6, -1},
                                             {y, 4, 6, 9, 4},
                                             {y, 1, 6, 0, 1},
                                             {y, 4, 1, 1, 0},
                                             {y, 1, 1, 0, 0}}) {
    CAPTURE(out.row_stride);
    CAPTURE(out.col_stride);
    CHECK(into(f, out) == status::ok);
  }
  CHECK(r.seen.size() == 1);
}

TEST_CASE("operands: a rotation that does not fit, an amax or a scale that is none") {
  refusals r;
  fixture<tiles> f;
  using rotated = loft::operand<tiles, loft::two_level, loft::nearest_even, loft::hadamard<32>>;
  r.expect_of_all(status::rotation_does_not_divide, f, rotated{});  // 48 columns
  r.expect<tiles>(status::rotation_does_not_divide, f,
                  [](auto& g) { return loft::tensor_amax(g.in, rotated{}, g.amax); });
  for (float const amax : {not_a_number, -not_a_number, infinity, -infinity}) {
    CAPTURE(amax);
    r.expect_of_all(status::invalid_amax, f, plain_tiles{.rule = {amax}});
    r.expect_of_all(status::invalid_amax, f, loft::operand<tiles, loft::four_over_six<>>{.rule = {amax}});
  }
  using fixed = loft::operand<tiles, loft::fixed_scale>;
  fixture<loft::mxfp4> m;
  using power = loft::operand<loft::mxfp4, loft::fixed_scale>;
  for (float const scale : {0.0f, -0.0f, -1.0f, not_a_number, -not_a_number, infinity, -infinity}) {
    CAPTURE(scale);
    r.expect_of_all(status::invalid_scale, f, fixed{.rule = {scale}});
    r.expect_of_all(status::invalid_scale, m, power{.rule = {scale}});
  }
  r.expect_of_all(status::invalid_scale, f, fixed{.rule = {0x1p-10f}});  // half the least code: even is 0
  CHECK(r.seen == std::set<status>{status::rotation_does_not_divide, status::invalid_amax, status::invalid_scale});

  for (float const amax : {-1.0f, -0.0f, 0.0f, 1e-45f, test::float_max}) {
    fixture<tiles> accepted;
    CHECK(loft::quantize(accepted.in, accepted.q.view(), plain_tiles{.rule = {amax}}) == status::ok);
  }
  for (float const scale : {0x1.8p-10f, 1.0f, 448.0f, test::float_max})  // saturates in the scale's format
    CHECK(loft::fake_quantize(f.in, f.to, fixed{.rule = {scale}}) == status::ok);
  for (float const scale : {1e-45f, 1.0f, test::float_max})
    CHECK(loft::fake_quantize(m.in, m.to, power{.rule = {scale}}) == status::ok);
}

TEST_CASE("ranges of rows") {
  refusals r;
  fixture<tiles> f;
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  for (row_range const range : {row_range{-16, 16}, row_range{8, 16}, row_range{1, -1}, row_range{0, 8},
                                row_range{16, 23}, row_range{32, 9}, row_range{32, 16}, row_range{48, 0},
                                row_range{41, -1}, row_range{0, huge}, row_range{16, huge}, row_range{huge - 15, 16}}) {
    CAPTURE(range.first);
    CAPTURE(range.count);
    r.expect_of_all(status::invalid_row_range, f, plain_tiles{}, range);
  }
  CHECK(r.seen.size() == 1);
  for (row_range const range : {row_range{0, 16}, row_range{16, 16}, row_range{32, 8}, row_range{16, -1},
                                row_range{0, 40}, row_range{0, 0}, row_range{32, -7}}) {
    CAPTURE(range.first);
    CHECK(loft::fake_quantize(f.in, f.to, plain_tiles{}, range) == status::ok);
  }
}

TEST_CASE("every status has a sentence of its own") {
  std::set<std::string> sentences;
  int count = 0;
  for (; count < 100; ++count) {
    std::string const sentence = loft::message(static_cast<status>(count));
    if (sentence == "unknown status") break;
    CHECK(sentence.size() > 7);
    sentences.insert(sentence);
  }
  CHECK(count >= 11);
  CHECK(static_cast<int>(sentences.size()) == count);
}

TEST_CASE("calls on tensors allocate nothing") {
  std::vector<float> const x(200 * 128, 0.75f);
  std::vector<float> y(x.size());
  loft::matrix_view<float const> const in{x.data(), 200, 128, 128}, across{x.data(), 128, 200, 1, 128};
  loft::matrix_view<float> const out{y.data(), 200, 128, 128}, down{y.data(), 128, 200, 1, 128};
  std::vector<float> z(200 * 200);
  loft::matrix_view<float> const square{z.data(), 200, 200, 200};
  loft::all_block_formats::for_each([&]<class B>(B) {
    any_buffers<B, loft::tiled_128x4> q(200, 128), turned(128, 200);
    loft::operand<B> const how{};
    std::int64_t const before = allocations;
    int refused = 0;
    refused += loft::quantize(in, q.view(), how) != status::ok;
    refused += loft::quantize(across, turned.view(), how) != status::ok;
    refused += loft::dequantize(q.view(), out, how) != status::ok;
    refused += loft::dequantize(turned.view(), down, how) != status::ok;
    refused += loft::fake_quantize(in, out, how) != status::ok;
    refused += loft::fake_quantize(across, down, how) != status::ok;
    refused += loft::matmul(loft::rows_of(q.view()), in, square) != status::ok;
    std::int64_t const after = allocations;
    CHECK(refused == 0);
    CHECK(after == before);
  });
  std::int64_t const before = allocations;
  std::vector<float> const copy = x;  // the control
  CHECK(allocations == before + 1);
  CHECK(copy == x);
}

TEST_CASE("calls for gradients, outliers, residuals and moments allocate nothing") {
  using operand = loft::operand<loft::nvfp4>;
  std::vector<float> const x(200 * 128, 0.75f);
  std::vector<float> y(x.size()), g(x.size());
  std::vector<double> work(128);
  std::vector<std::uint8_t> bits(200 * 16);
  loft::matrix_view<float const> const in{x.data(), 200, 128, 128};
  loft::matrix_view<float> const out{y.data(), 200, 128, 128}, gradient{g.data(), 200, 128, 128};
  any_buffers<loft::nv_moment4> q(200, 128);
  operand const how{};
  loft::second_moment<loft::operand<loft::nv_moment4>> const moment{};
  loft::with_residual<operand, loft::half_of_columns> const residual{how, how, {work.data(), 128}};
  std::int64_t const before = allocations;
  int refused = 0;
  refused += loft::estimate_gradient(gradient, in, how, loft::differentiable_estimator{}) != status::ok;
  refused += loft::save_clip_mask(in, {bits.data(), 200, 128}, how) != status::ok;
  refused += loft::apply_clip_mask(gradient, {bits.data(), 200, 128}, how) != status::ok;
  refused += loft::fake_quantize(in, out, loft::clamped<operand>{}) != status::ok;
  refused += loft::fake_quantize(in, out, residual) != status::ok;
  refused += loft::store_second_moment(in, q.view(), moment) != status::ok;
  refused += loft::load_second_moment(q.view(), out, moment) != status::ok;
  std::int64_t const after = allocations;
  CHECK(refused == 0);
  CHECK(after == before);
}
