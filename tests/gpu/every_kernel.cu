// SPDX-License-Identifier: Apache-2.0
// Every kind of kernel on small tensors, ragged, misaligned and transposed, in memory that is exactly as large as it has to
// be: for compute-sanitizer, which sees what is read and written beside it and what threads do to each other's memory.
// The results are compared by the other programs of this folder.
//
// nvcc -std=c++20 -O2 -arch=sm_90 -Iinclude -Itests/gpu tests/gpu/every_kernel.cu -o every_kernel
// for tool in memcheck racecheck synccheck; do compute-sanitizer --tool $tool ./every_kernel; done
#include "launches.hpp"

namespace {

using namespace gpu_tests;

template <class Format, class Layout> struct output {
  device::array<std::uint8_t> codes;
  device::array<code<typename Format::scale>> scales;
  device::array<float> factor{1, 0};
  std::int64_t rows, cols;
  output(std::int64_t r, std::int64_t c)
      : codes(codes_bytes<Format>(r, c), 0), scales(scale_count<Format, Layout>(r, c), 0), rows{r}, cols{c} {}
  quantized_view<Format> view() { return {codes.data, scales.data, factor.data, rows, cols}; }
};

void served(status s, char const* what) { expect(s == status::ok, what); }

template <class T, class Layout, class Operand>
void one(std::int64_t rows, std::int64_t cols, int offset, Operand const& how) {
  using format = typename Operand::format;
  constexpr bool both_ways = !detail::rotates<Operand> || format::shape.rows == 1;
  device::array<T> in(rows * cols + offset, 0);
  device::array<float> out(rows * cols, 0);
  output<format, Layout> along(rows, cols), across(cols, rows);
  std::int64_t const bytes = cuda::workspace_bytes<Operand, Operand>();  // of quantize_both
  device::array<unsigned char> workspace(bytes, 0);
  device::array<std::uint64_t> seed(2, 0);
  cuda::context where{stream()};
  where.workspace = workspace.data;
  where.workspace_bytes = bytes;
  if (std::is_same_v<T, float>) where.seed = seed.data;
  matrix_view<T const> const from{in.data + offset, rows, cols, cols};
  served(cuda::quantize(from, along.view(), how, where), "quantize");
  if (rows % detail::rotation_size<Operand> == 0) {
    served(cuda::quantize(transposed(from), across.view(), how, where), "quantize the transpose");
    if constexpr (both_ways)
      served(cuda::quantize_both<Operand, Operand>(from, along.view(), how, across.view(), how, where),
             "quantize_both");
  }
  served(cuda::dequantize(along.view(), matrix_view<float>{out.data, rows, cols, cols}, how, where), "dequantize");
  if constexpr (has_tensor_scale<format>) served(cuda::tensor_amax(from, how, along.factor.data, where), "tensor_amax");
}

template <class Operand> void shapes(char const* name, Operand const& how) {
  current = name;
  for (auto const [rows, cols] : {std::pair<int, int>{3, 96}, {130, 160}, {64, 4096}, {160, 224}, {1, 32}, {96, 768}})
    for (int const offset : {0, 1}) {
      if (cols % detail::rotation_size<Operand> != 0) continue;
      one<bf16_t, row_major>(rows, cols, offset, how);
      one<float, tiled_128x4>(rows, cols, offset, how);
    }
  check(cudaStreamSynchronize(stream()));
}

template <class T> void norms(std::vector<std::int64_t> const& counts) {
  current = "norms";
  std::vector<cuda::norm_item<T>> items;
  std::vector<device::array<T>> memories;
  for (std::int64_t const count : counts) {
    memories.emplace_back(count + 1, 0);
    items.push_back({memories.back().data + items.size() % 2, count});
  }
  int const size = static_cast<int>(items.size());
  std::int64_t const chunks = cuda::plan_norms(items.data(), size), bytes = cuda::norm_workspace_bytes(size, chunks);
  device::array<cuda::norm_item<T>> const list(items);
  device::array<unsigned char> workspace(bytes, 0);
  device::array<norm_partial> out(size, 0);
  cuda::context where{stream()};
  where.workspace = workspace.data;
  where.workspace_bytes = bytes;
  served(cuda::partial_norms(list.data, size, chunks, out.data, where), "norms");
  check(cudaStreamSynchronize(stream()));
}

template <class Operand> void with_norm(std::int64_t count, Operand const& how) {
  current = "quantize_with_norm";
  using format = typename Operand::format;
  device::array<bf16_t> in(count, 0);
  output<format, row_major> out(1, count);
  device::array<norm_partial> norm(1, 0);
  std::int64_t const chunks = (count + norm_order::chunk - 1) / norm_order::chunk;
  std::int64_t const bytes = cuda::workspace_bytes<Operand>() + cuda::norm_workspace_bytes(1, chunks);
  device::array<unsigned char> workspace(bytes, 0);
  cuda::context where{stream()};
  where.workspace = workspace.data;
  where.workspace_bytes = bytes;
  device::array<std::uint64_t> seed(2, 0);
  where.seed = seed.data;
  served(
      cuda::quantize_with_norm(matrix_view<bf16_t const>{in.data, 1, count, count}, out.view(), how, norm.data, where),
      "quantize_with_norm");
  check(cudaStreamSynchronize(stream()));
}

template <class Rotation> void rotations(Rotation const& rotation) {
  current = "rotate";
  constexpr std::int64_t cols = Rotation::size * 2;
  device::array<bf16_t> in(33 * cols + 1, 0);
  device::array<std::uint64_t> seed(2, 0);
  cuda::context where{stream()};
  where.seed = seed.data;
  for (int const offset : {0, 1}) {
    matrix_view<bf16_t> const view{in.data + offset, 33, cols, cols};
    served(cuda::rotate(view, view, rotation, where), "rotate");
    served(cuda::rotate_back(view, view, rotation, where), "rotate back");
  }
  check(cudaStreamSynchronize(stream()));
}

}  // namespace

int main() {
  if (!device::has()) return 2;
  shapes("mxfp4", operand<mxfp4>{});
  shapes("mxfp6", operand<mxfp6_e2m3>{});
  shapes("mxfp8", operand<mxfp8_e4m3>{});
  shapes("nvfp4", operand<nvfp4>{});
  shapes("nvfp4, four over six", operand<nvfp4, four_over_six<>>{});
  shapes("hif4", operand<hif4>{});
  shapes("mxfp4, stochastic", operand<mxfp4, ocp_floor, stochastic<8>>{});
  shapes("mxfp4, rotated", operand<mxfp4, ocp_floor, nearest_even, hadamard<32>>{});
  shapes("nvfp4, rotated, stochastic", operand<nvfp4, two_level, stochastic<8>, signed_hadamard<16>>{});
  shapes("mxfp4, random signs", operand<mxfp4, ocp_floor, nearest_even, random_hadamard<32>>{});
  shapes("nvfp4, random signs, stochastic", operand<nvfp4, two_level, stochastic<8>, random_hadamard<32>>{});
  shapes("nvfp4, runs that lanes do not hold", operand<nvfp4, two_level, stochastic<8>, random_hadamard<96>>{});
  shapes("square mxfp4, runs that lanes do not hold",
         operand<square<mxfp4, 32>, ocp_floor, nearest_even, random_hadamard<768>>{});
  shapes("square nvfp4", operand<square<nvfp4, 16>>{});
  shapes("square mxfp4", operand<square<mxfp4, 32>>{});
  shapes("fp8 in squares", operand<fp8_128x128>{});
  norms<bf16_t>({100000, 77, 0, 4096, 16384, 4097});
  norms<float>({1, 20000});
  norms<bf16_t>({300000});
  with_norm(64, operand<mxfp4>{});
  with_norm(200000, operand<mxfp4>{});
  with_norm(65536, operand<nvfp4>{});
  with_norm(65536, operand<nvfp4, two_level, stochastic<8>, random_hadamard<32>>{});
  rotations(hadamard<16>{});
  rotations(signed_hadamard<128>{0x1234'5678'9abc'def1u});
  rotations(random_hadamard<64>{});
  rotations(random_hadamard<160>{});
  return report();
}
