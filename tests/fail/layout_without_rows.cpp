// SPDX-License-Identifier: Apache-2.0
// A layout is told how many rows and columns the grid of scales has, in that order.
// expect: the second argument is no layout of scales: a layout has tile_rows, tile_cols, repeats_rows and an index.row, col, rows, cols.
#include <loft/tensor.hpp>

struct by_columns {
  static constexpr std::int64_t tile_rows = 1, tile_cols = 1;
  static constexpr bool repeats_rows = false;
#ifdef LOFT_FAIL
  static constexpr std::int64_t index(std::int64_t row, std::int64_t col, std::int64_t cols) {
    return col * cols + row;
  }
#else
  static constexpr std::int64_t index(std::int64_t row, std::int64_t col, std::int64_t rows, std::int64_t) {
    return col * rows + row;
  }
#endif
};

int main() {
  loft::quantized_view<loft::mxfp4, by_columns> const q{};
  return q.rows == 0 ? 0 : 1;
}
