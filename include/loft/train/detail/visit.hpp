// SPDX-License-Identifier: Apache-2.0
// Loops over the elements of a matrix: all of them, or those of one tile.
#pragma once

#include <cstdint>

#include "loft/core/bits.hpp"
#include "loft/number/minifloat.hpp"
#include "loft/tensor/view.hpp"

namespace loft::detail {

/// Calls f(row, col) for the elements of tile number `tile` of a matrix, in row-major order. Tiles of height x width
/// elements, 0 for the whole extent, are counted row by row; the last ones are short.
template <class Function>
LOFT_HOST_DEVICE constexpr void visit_tile(std::int64_t rows, std::int64_t cols, std::int64_t height,
                                           std::int64_t width, std::int64_t tile, Function&& f) noexcept {
  std::int64_t const tall = height == 0 ? rows : height, wide = width == 0 ? cols : width;
  std::int64_t const across = ceil_div(cols, wide), top = tile / across * tall, left = tile % across * wide;
  for (std::int64_t row = top; row < min(rows, top + tall); ++row)
    for (std::int64_t col = left; col < min(cols, left + wide); ++col) f(row, col);
}

/// out = f(in), element by element; `out` may be `in`.
template <class T, class Function>
LOFT_HOST_DEVICE constexpr void map_elements(matrix_view<T> in, matrix_view<float> out, Function&& f) noexcept {
  for (std::int64_t row = 0; row < in.rows; ++row)
    for (std::int64_t col = 0; col < in.cols; ++col) out(row, col) = f(to_float(in(row, col)));
}

}  // namespace loft::detail
