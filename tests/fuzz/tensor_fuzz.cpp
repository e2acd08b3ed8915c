// SPDX-License-Identifier: Apache-2.0
// Fuzzing of the tensor verbs: bytes choose shapes, strides, ranges, missing pointers, the operand, the layout and the data.
// Buffers have exactly the documented size, so that the address sanitizer sees one byte too many; wrong results stop the run.
//
//   cmake --build build/host --target tensor_fuzz
//   build/host/tests/tensor_fuzz -max_total_time=600 -max_len=2048 -len_control=0 corpus/
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <type_traits>
#include <vector>

#include "loft/loft.hpp"

namespace {

using loft::status;

void require(bool held, char const* what) {
  if (held) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

class reader {
 public:
  reader(std::uint8_t const* data, std::size_t size) : data_{data}, size_{size} {}
  std::uint8_t byte() {
    // After the last byte, noise goes on that all bytes have a part in.
    state_ = state_ * 1664525u + 1013904223u + (at_ < size_ ? data_[at_] : 0u);
    return at_ < size_ ? data_[at_++] : static_cast<std::uint8_t>(state_ >> 24);
  }
  std::uint32_t word() {
    std::uint32_t result = 0;
    for (int i = 0; i < 4; ++i) result = result << 8 | byte();
    return result;
  }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>((byte() | byte() << 8) % static_cast<int>(high - low + 1));
  }
  bool one_in(int n) { return byte() % n == 0; }
  // Raw bits, ordinary sizes, or the specials.
  float value() {
    std::uint32_t const bits = word();
    switch (byte() % 8) {
      case 0:
        return loft::bit_cast<float>(bits);
      case 1:
        return loft::bit_cast<float>(bits & 0x807fffffu);  // zeros and subnormals
      case 2:
        return loft::bit_cast<float>(bits % 5 == 0 ? 0x7f800000u | (bits & 0x80000000u) : bits | 0x7f000000u);
      default:
        return loft::bit_cast<float>((bits & 0x80ffffffu) + 0x3f000000u);
    }
  }

 private:
  std::uint8_t const* data_;
  std::size_t size_, at_ = 0;
  std::uint32_t state_ = 1;
};

// A matrix in a heap block of exactly the elements that it touches, from the lowest to the highest.
template <class T> struct matrix {
  std::unique_ptr<T[]> memory;
  std::int64_t size = 0, rows, cols, row_stride, col_stride, start = 0;

  matrix(reader& in, std::int64_t r, std::int64_t c) : rows{r}, cols{c} {
    std::int64_t const choices[6][2] = {{c, 1},  {1, r},          {c + 3, 1},
                                        {-c, 1}, {2 * c + 1, -2}, {in.between(-9, 9), in.between(-9, 9)}};
    auto const& chosen = choices[in.byte() % 6];
    row_stride = chosen[0], col_stride = chosen[1];
    if (r <= 0 || c <= 0) return;
    std::int64_t const down = (r - 1) * row_stride, across = (c - 1) * col_stride;
    std::int64_t const low = std::min<std::int64_t>(down, 0) + std::min<std::int64_t>(across, 0);
    std::int64_t const high = std::max<std::int64_t>(down, 0) + std::max<std::int64_t>(across, 0);
    size = high - low + 1, start = -low;
    memory.reset(new T[static_cast<std::size_t>(size)]);
  }
  T& at(std::int64_t r, std::int64_t c) {
    return memory[static_cast<std::size_t>(start + r * row_stride + c * col_stride)];
  }
  loft::matrix_view<T> view() { return {memory ? memory.get() + start : nullptr, rows, cols, row_stride, col_stride}; }
  bool overlaps() {
    std::set<T*> seen;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) seen.insert(&at(r, c));
    return static_cast<std::int64_t>(seen.size()) != std::max<std::int64_t>(rows, 0) * std::max<std::int64_t>(cols, 0);
  }
};

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || loft::bit_cast<std::uint32_t>(a) == loft::bit_cast<std::uint32_t>(b);
}
std::int64_t up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

constexpr std::uint8_t poison = 0xa5;

// Codes and scales in heap blocks of exactly the documented sizes.
template <class B, class Layout> struct packed {
  using scale_code = loft::code<typename B::scale>;
  static constexpr bool tiled = std::is_same_v<Layout, loft::tiled_128x4>;
  std::size_t row_bytes, code_bytes, scale_bytes;
  std::unique_ptr<std::uint8_t[]> codes;
  std::unique_ptr<scale_code[]> scales;
  float tensor_scale = -77;
  std::int64_t rows, cols;

  packed(std::int64_t r, std::int64_t c) : rows{r}, cols{c} {
    std::int64_t const y = std::max<std::int64_t>(r, 0), x = std::max<std::int64_t>(c, 0),
                       across = up(x, B::shape.cols);
    std::int64_t const places = tiled ? up(y, 128) * up(across, 4) * 512 : up(y, B::shape.rows) * across;
    row_bytes = static_cast<std::size_t>(up(x * B::element::spec.bits(), 8));
    code_bytes = row_bytes * static_cast<std::size_t>(y);
    scale_bytes = static_cast<std::size_t>(places) * sizeof(scale_code);
    codes.reset(new std::uint8_t[code_bytes]);
    scales.reset(new scale_code[static_cast<std::size_t>(places)]);
    std::memset(codes.get(), poison, code_bytes);
    std::memset(static_cast<void*>(scales.get()), poison, scale_bytes);
    if (r < 0 || c < 0) return;
    require(loft::codes_bytes<B>(r, c) == static_cast<std::int64_t>(code_bytes), "codes_bytes is the documented size");
    require(loft::scale_count<B, Layout>(r, c) == places, "scale_count is the documented size");
  }
  loft::quantized_view<B, Layout> view() { return {codes.get(), scales.get(), &tensor_scale, rows, cols}; }
  bool untouched() const {
    auto const* bytes = reinterpret_cast<std::uint8_t const*>(scales.get());
    bool clean = tensor_scale == -77;
    for (std::size_t i = 0; i < code_bytes; ++i) clean = clean && codes[i] == poison;
    for (std::size_t i = 0; i < scale_bytes; ++i) clean = clean && bytes[i] == poison;
    return clean;
  }
  // Rows outside [first, end) still hold the poison.
  bool others_untouched(std::int64_t first, std::int64_t end) const {
    bool clean = true;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::size_t i = 0; (r < first || r >= end) && i < row_bytes; ++i)
        clean = clean && codes[static_cast<std::size_t>(r) * row_bytes + i] == poison;
    return clean;
  }
};

bool valid_range(loft::row_range range, std::int64_t rows, int block_rows, std::int64_t& end) {
  if (range.first < 0 || range.first > rows || range.first % block_rows != 0) return false;
  end = range.count < 0 ? rows : range.first + range.count;
  return end <= rows && (end == rows || (end - range.first) % block_rows == 0);
}

// Where the block of (row, col) holds a value that is not finite, all of it decodes to NaN; elsewhere nothing does.
template <class B, class T>
void check_nan_blocks(matrix<T>& in, std::vector<float> const& decoded, std::int64_t first, std::int64_t end) {
  for (std::int64_t top = first; top < end; top += B::shape.rows) {
    for (std::int64_t left = 0; left < in.cols; left += B::shape.cols) {
      bool finite = true;
      std::int64_t nans = 0, count = 0;
      for (std::int64_t r = top; r < std::min(end, top + B::shape.rows); ++r) {
        for (std::int64_t c = left; c < std::min(in.cols, left + B::shape.cols); ++c) {
          finite = finite && std::isfinite(static_cast<float>(in.at(r, c)));
          nans += std::isnan(decoded[static_cast<std::size_t>(r * in.cols + c)]);
          ++count;
        }
      }
      require(nans == (finite ? 0 : count), "a block is NaN as a whole, and only for a value that is not finite");
    }
  }
}

template <class Operand, class Layout, class T = float> void run(reader& bytes, Operand how) {
  using B = typename Operand::format;
  constexpr int rotation = decltype(how.rotation)::size;
  std::int64_t const rows = bytes.between(-1, 40),
                     cols = bytes.one_in(3) ? bytes.between(0, 20) * 16 : bytes.between(-1, 300);
  matrix<T> in(bytes, rows, cols);
  matrix<float> out(bytes, rows, cols);
  loft::row_range range{};
  if (bytes.one_in(2)) range = {bytes.between(-1, 41), bytes.between(-1, 41)};
  if constexpr (requires { how.rounding.seed; }) how.rounding.seed = bytes.word();
  if constexpr (requires { how.rule.amax; }) how.rule.amax = bytes.one_in(2) ? -1.0f : bytes.value();
  bool const bad_amax = [&] {
    if constexpr (requires { how.rule.amax; }) return !std::isfinite(how.rule.amax);
    return false;
  }();
  for (std::int64_t i = 0; i < in.size; ++i) in.memory[static_cast<std::size_t>(i)] = static_cast<T>(bytes.value());
  for (std::int64_t i = 0; i < out.size; ++i) out.memory[static_cast<std::size_t>(i)] = -5.0f;

  packed<B, Layout> q(rows, cols);
  auto view = q.view();
  int const missing = bytes.one_in(8) ? bytes.byte() % 3 : -1;
  if (missing == 0) view.codes = nullptr;
  if (missing == 1) view.scales = nullptr;
  if (missing == 2) view.tensor_scale = nullptr;
  std::int64_t end = 0;
  bool const empty = rows == 0 || cols == 0, sizes = rows >= 0 && cols >= 0;
  bool const pointers = empty || missing < 0 || (missing == 2 && !loft::has_tensor_scale<B>);
  bool const fits = sizes && cols % rotation == 0 && !bad_amax && valid_range(range, rows, B::shape.rows, end);
  auto const as_const = loft::matrix_view<T const>(in.view());
  status const done = loft::quantize(as_const, view, how, range);
  require((done == status::ok) == (fits && pointers), "quantize accepts exactly what is documented");
  if (done != status::ok || empty || range.first == end)
    require(q.untouched(), "a refused or empty call writes nothing");
  if (done == status::ok) require(q.others_untouched(range.first, end), "rows outside the range stay");

  bool const writable = fits && !out.overlaps();
  status const faked = loft::fake_quantize(as_const, out.view(), how, range);
  require((faked == status::ok) == writable, "fake_quantize accepts exactly what is documented");
  if (done != status::ok || empty) return;
  std::vector<float> decoded(static_cast<std::size_t>(rows * cols), -5.0f);
  loft::quantized_view<B const, Layout> const stored = view;
  require(
      loft::dequantize(stored, loft::matrix_view<float>{decoded.data(), rows, cols, cols}, how, range) == status::ok,
      "what was quantized can be decoded");
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      bool const inside = r >= range.first && r < end;
      float const value = decoded[static_cast<std::size_t>(r * cols + c)];
      require(inside || value == -5.0f, "dequantize stays in its range");
      if (faked == status::ok) require(same(out.at(r, c), value), "dequantize of quantize is fake_quantize");
    }
  }
  if constexpr (rotation == 1) check_nan_blocks<B>(in, decoded, range.first, end);
}

template <class B> void run_format(reader& bytes) {
  using namespace loft;
  using rule = default_rule<B>;
  switch (bytes.byte() % 4) {
    case 0:
      return run<operand<B>, row_major>(bytes, {});
    case 1:
      return run<operand<B>, tiled_128x4, bf16_t>(bytes, {});
    case 2:
      return run<operand<B, rule, stochastic<16>>, row_major>(bytes, {});
    default:
      return run<operand<B, rule, stochastic<8>, signed_hadamard<16>>, tiled_128x4>(bytes, {.rotation = {0x9a5c}});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace loft;
  reader bytes{data, size};
  int const chosen = bytes.byte() % (all_block_formats::size + 8);
  int number = 0;
  all_block_formats::for_each([&]<class B>(B) {
    if (number++ == chosen) run_format<B>(bytes);
  });
  switch (chosen - all_block_formats::size) {
    case 0:
      run<operand<square<nvfp4, 16>>, tiled_128x4>(bytes, {});
      break;
    case 1:
      run<operand<square<mxfp6_e2m3, 8>>, row_major>(bytes, {});
      break;
    case 2:
      run<operand<nvfp4, four_over_six<>>, row_major>(bytes, {});
      break;
    case 3:
      run<operand<mxfp4, quest_scale>, row_major>(bytes, {});
      break;
    case 4:
      run<operand<mxfp4, floor_four_thirds, to_odd>, row_major>(bytes, {});
      break;
    case 5:
      run<operand<mxfp8_e5m2, ceil_scale, stochastic<32>, hadamard<128>>, row_major>(bytes, {});
      break;
    case 6:
      run<operand<mxfp4, nearest_scale, truncated_stochastic<4>>, row_major, e4m3_t>(bytes, {});
      break;
    case 7:
      run<operand<nvint4, unbiased_two_level_256, stochastic<1>>, row_major, fp16_t>(bytes, {});
      break;
    default:
      break;
  }
  return 0;
}
