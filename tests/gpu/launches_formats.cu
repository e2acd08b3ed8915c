// SPDX-License-Identifier: Apache-2.0
// quantize, quantize_both and dequantize of a GPU against those of the host, to the byte: every block format, from and to
// one type of number.
//
// nvcc -std=c++20 -O2 -arch=sm_90 -Iinclude -Itests/gpu -DLOFT_TEST_NUMBER=bf16_t tests/gpu/launches_formats.cu
// with bf16_t, fp16_t and float in turn; float with -DLOFT_TEST_SHARED_LIMIT=65536 too:
// AMD's tiles. Exit code 1 where a byte differs, 2 without a GPU.
#include "launches_quantize.hpp"
#include "loft/block.hpp"
#include "loft/block/describe.hpp"

#if !defined(LOFT_TEST_NUMBER)
#define LOFT_TEST_NUMBER bf16_t
#endif

using namespace gpu_tests;

namespace {

using number = LOFT_TEST_NUMBER;

/// What the host decodes, rounded once more to the type of the output.
template <class Operand> void decode_all(char const* what, Operand const& how = {}) {
  using format = typename Operand::format;
  unsigned seed = 31;
  for (extent const e : extents) {
    auto const values = numbers<number>(e.rows, e.cols, ++seed, content::tame);
    current = what;
    auto const coded = answer_of<row_major>(matrix_view<number const>{values.data(), e.rows, e.cols, e.cols}, how);
    float scale = coded.tensor_scale;
    quantized_view<format const> const host{coded.codes.data(), coded.scales.data(), &scale, e.rows, e.cols};
    std::vector<float> floats(values.size());
    if (dequantize(host, matrix_view<float>{floats.data(), e.rows, e.cols, e.cols}, how) != status::ok) std::exit(1);
    device::array<code<typename format::scale>> const scales(coded.scales);
    device::array<float> const tensor_scale(&scale, 1);
    for (int const shift : {0, 1}) {
      std::vector<std::uint8_t> shifted(static_cast<std::size_t>(shift));
      shifted.insert(shifted.end(), coded.codes.begin(), coded.codes.end());
      device::array<std::uint8_t> const codes(shifted);
      quantized_view<format const> const in{codes.data + shift, scales.data, tensor_scale.data, e.rows, e.cols};
      for (auto const& m : memory_shapes) {
        if (shift != 0 && m.pad == 0) continue;
        name_case(what, e, m);
        auto const s = strides_of(m, e.rows, e.cols);
        image parts;
        std::int64_t const at = parts.add(s.size * static_cast<std::int64_t>(sizeof(number)), 256, 0);
        compare_image(
            parts,
            [&](unsigned char* base) {
              matrix_view<number> const out{reinterpret_cast<number*>(base + at) + s.start, e.rows, e.cols, s.row,
                                            s.col};
              return cuda::dequantize(in, out, how, context_of(nullptr, 0, {}));
            },
            [&](unsigned char* base) {
              for (std::int64_t r = 0; r < e.rows; ++r)
                for (std::int64_t c = 0; c < e.cols; ++c) {
                  auto const value = static_cast<number>(floats[static_cast<std::size_t>(r * e.cols + c)]);
                  std::memcpy(base + at + (s.start + r * s.row + c * s.col) * static_cast<std::int64_t>(sizeof(number)),
                              &value, sizeof value);
                }
            });
      }
    }
  }
}

template <BlockFormat B> void one_format(char const* what) {
  group const g(what);
  using how = operand<B>;
  all_matrices<number>(what, how{});
  both_ways<number>(what, how{}, how{});
  decode_all<how>(what);
}

template <BlockFormat B> void one_format_in_layouts(char const* what) {
  group const g(what);
  all_matrices<number, col_major>(what, operand<B>{});
  both_ways<number, col_major>(what, operand<B>{}, operand<B>{});
  both_ways<number, tiled_128x4, col_major>(what, operand<B>{}, operand<B>{});
  both_ways<number, row_major, tiled_128x4>(what, operand<B>{}, operand<B>{});
}

}  // namespace

int main() {
  if (!device::has()) return 2;
  all_block_formats::for_each([]<class B>(B) { one_format<B>(describe<B>().text); });
  one_format<square<mxfp4, 32>>("square<mxfp4, 32>");
  one_format<square<mxfp4, 16>>("square<mxfp4, 16>");
  one_format<square<nvfp4, 16>>("square<nvfp4, 16>");
  one_format<square<mxfp8_e4m3, 32>>("square<mxfp8_e4m3, 32>");
  one_format<square<nvfp4, 64>>("square<nvfp4, 64>");
  one_format_in_layouts<mxfp4>("mxfp4, other layouts");
  one_format_in_layouts<nvfp4>("nvfp4, other layouts");
  one_format_in_layouts<square<nvfp4, 16>>("square<nvfp4, 16>, other layouts");
  one_format_in_layouts<fp8_128x128>("fp8_128x128, other layouts");
  check(cudaDeviceSynchronize());
  return report();
}
