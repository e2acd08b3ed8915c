// SPDX-License-Identifier: Apache-2.0
// Output buffers of a quantized tensor for any scale type and layout, poisoned with ff, with guard bytes on both sides.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "loft/tensor.hpp"

namespace test {

// Bytes between two guards. The sizes are computed here, not asked of the library.
class guarded_bytes {
 public:
  static constexpr std::size_t guard = 32;

  explicit guarded_bytes(std::size_t size) : bytes_(size + 2 * guard, 0xff) {}
  [[nodiscard]] std::uint8_t* data() { return bytes_.data() + guard; }
  [[nodiscard]] std::uint8_t const* data() const { return bytes_.data() + guard; }
  [[nodiscard]] std::size_t size() const { return bytes_.size() - 2 * guard; }
  [[nodiscard]] bool guards_hold() const { return is_poison(0, guard) && is_poison(bytes_.size() - guard, guard); }
  [[nodiscard]] bool is_poison(std::size_t first, std::size_t count) const {
    auto const begin = bytes_.begin() + static_cast<std::ptrdiff_t>(first);
    return std::all_of(begin, begin + static_cast<std::ptrdiff_t>(count), [](std::uint8_t b) { return b == 0xff; });
  }
  friend bool operator==(guarded_bytes const&, guarded_bytes const&) = default;

 private:
  std::vector<std::uint8_t> bytes_;
};

inline std::int64_t blocks_in(std::int64_t extent, int size) { return (extent + size - 1) / size; }

template <class B, class Layout = loft::row_major> class any_buffers {
 public:
  using scale_code = loft::code<typename B::scale>;
  static constexpr int bits = B::element::spec.bits();
  static constexpr bool tiled = std::is_same_v<Layout, loft::tiled_128x4>;
  static_assert(alignof(scale_code) <= 8);

  any_buffers(std::int64_t rows, std::int64_t cols)
      : rows_{rows},
        cols_{cols},
        codes_(static_cast<std::size_t>(rows * ((cols * bits + 7) / 8))),
        scales_(places(rows, cols) * sizeof(scale_code)) {}

  [[nodiscard]] loft::quantized_view<B, Layout> view() {
    return {codes_.data(), reinterpret_cast<scale_code*>(scales_.data()), &tensor_scale, rows_, cols_};
  }
  [[nodiscard]] std::uint32_t code(std::int64_t row, std::int64_t col) const {
    std::size_t const first = static_cast<std::size_t>(row * ((cols_ * bits + 7) / 8));
    std::uint32_t result = 0;
    for (int i = 0; i < bits; ++i) {
      auto const bit = static_cast<std::size_t>(col * bits + i);
      result |= (codes_.data()[first + bit / 8] >> (bit % 8) & 1u) << i;
    }
    return result;
  }
  [[nodiscard]] scale_code scale(std::size_t place) const {
    scale_code result;
    std::memcpy(&result, scales_.data() + place * sizeof result, sizeof result);
    return result;
  }
  // The scale of the block of element (row, col), in a row-major layout.
  [[nodiscard]] scale_code scale_at(std::int64_t row, std::int64_t col) const {
    return scale(static_cast<std::size_t>(row / B::shape.rows * blocks_in(cols_, B::shape.cols) + col / B::shape.cols));
  }
  [[nodiscard]] std::size_t scale_places() const { return scales_.size() / sizeof(scale_code); }

  // Guards still hold ff, and the bits after the last code of each row are zero.
  [[nodiscard]] bool margins_are_clean() const {
    bool clean = codes_.guards_hold() && scales_.guards_hold();
    std::size_t const row_bytes = static_cast<std::size_t>((cols_ * bits + 7) / 8);
    int const used = static_cast<int>(cols_ * bits % 8);
    for (std::size_t r = 0; used != 0 && r < static_cast<std::size_t>(rows_); ++r)
      clean = clean && codes_.data()[(r + 1) * row_bytes - 1] >> used == 0;
    return clean;
  }
  [[nodiscard]] bool untouched() const {
    return codes_.is_poison(0, codes_.size()) && scales_.is_poison(0, scales_.size()) && tensor_scale == -77.0f;
  }
  friend bool operator==(any_buffers const&, any_buffers const&) = default;

  float tensor_scale = -77.0f;

 private:
  // The tiled layout has 512 places for each 128 rows and 4 scales of a row.
  static std::size_t places(std::int64_t rows, std::int64_t cols) {
    std::int64_t const across = blocks_in(cols, B::shape.cols);
    return static_cast<std::size_t>(tiled ? blocks_in(rows, 128) * blocks_in(across, 4) * 512
                                          : blocks_in(rows, B::shape.rows) * across);
  }
  std::int64_t rows_, cols_;
  guarded_bytes codes_, scales_;
};

}  // namespace test
