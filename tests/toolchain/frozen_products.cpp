// SPDX-License-Identifier: Apache-2.0
// A small program for every compiler and flag set: the bits of emulated products, all accumulators, as a frozen hash.
// It fails with a status other than 0.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "loft/loft.hpp"

namespace {

using loft::matrix_view, loft::status;

constexpr std::int64_t rows = 19, others = 35, cols = 301;
int failures = 0;

struct hash {
  std::uint64_t value = 0xcbf29ce484222325u;
  void add(float x) { value = (value ^ loft::bit_cast<std::uint32_t>(x)) * 0x100000001b3u; }
};

std::vector<float> noise(std::int64_t count, std::uint64_t state) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& x : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x = static_cast<float>(static_cast<std::int32_t>(state >> 40) - (1 << 23)) *
        ((state >> 39 & 7) == 0 ? 1.0f : 0x1p-22f);
    if (state >> 54 == 77) x = loft::bit_cast<float>(0x7f800000u);
  }
  return values;
}

template <class B> struct tensor {
  std::vector<std::uint8_t> codes;
  std::vector<loft::code<typename B::scale>> scales;
  float scale = 1;
  std::int64_t height;

  tensor(std::int64_t n, std::uint64_t seed)
      : codes(static_cast<std::size_t>(loft::codes_bytes<B>(n, cols))),
        scales(static_cast<std::size_t>(loft::scale_count<B>(n, cols))),
        height{n} {
    std::vector<float> const x = noise(n * cols, seed);
    matrix_view<float const> const in{x.data(), n, cols, cols};
    failures += loft::quantize(in, view(), loft::operand<B>{}) != status::ok;
  }
  loft::quantized_view<B> view() { return {codes.data(), scales.data(), &scale, height, cols}; }
};

// All elements of the product, what stands there after it is added twice, and some elements alone.
template <class A, class Left, class Right>
void add_product(hash& bits, Left const& left, Right const& right, A const& how) {
  std::vector<float> out(static_cast<std::size_t>(rows * others));
  matrix_view<float> const to{out.data(), rows, others, others};
  failures += loft::matmul(left, right, to, how) != status::ok;
  for (std::int64_t i = 0; i < rows; i += 3) {
    float const alone = loft::dot(left, i, right, i + 1, how);
    failures += loft::bit_cast<std::uint32_t>(alone) != loft::bit_cast<std::uint32_t>(to(i, i + 1));
  }
  for (float const x : out) bits.add(x);
  failures += loft::matmul_add(left, right, to, how) != status::ok;
  for (float const x : out) bits.add(x);
}

template <class Left, class Right> void add_accumulators(hash& bits, Left const& left, Right const& right) {
  add_product(bits, left, right, loft::float_accumulator{});
  add_product(bits, left, right, loft::double_accumulator{});
  add_product(bits, left, right, loft::chunked_accumulator<loft::bf16, 8, loft::fp32>{});
}

}  // namespace

int main() {
  constexpr std::uint64_t frozen = 0xc1e71cc4e37cd339u;
  hash bits;
  std::vector<float> const x = noise(others * cols, 5);
  matrix_view<float const> const plain{x.data(), others, cols, cols};
  tensor<loft::nvfp4> nvfp4(rows, 1), right(others, 2);
  tensor<loft::mxfp8_e5m2> mxfp8(rows, 3);
  tensor<loft::fp8_1x128> fp8(rows, 4);
  add_accumulators(bits, nvfp4.view(), right.view());
  add_accumulators(bits, mxfp8.view(), right.view());
  add_accumulators(bits, fp8.view(), plain);
  add_accumulators(bits, loft::rows_of(matrix_view<float const>{x.data(), rows, cols, cols}), plain);
  std::printf("hash %016llx, %d failures\n", static_cast<unsigned long long>(bits.value), failures);
  return failures == 0 && bits.value == frozen ? 0 : 1;
}
