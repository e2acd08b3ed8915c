// SPDX-License-Identifier: Apache-2.0
// More than 2^31 elements, and blocks that lie in several lanes: launches and quantize_lanes against quantize_block, all
// on the GPU, where one thread works on one block. same_bits.cu compares quantize_block itself with the host.
//
// nvcc -std=c++20 -O2 -arch=sm_90 -Iinclude -Itests/gpu tests/gpu/launches_large.cu
// Needs 8 GiB of GPU memory. Exit code 1 where a byte differs, 2 without a GPU.
#include "launches_quantize.hpp"

using namespace gpu_tests;

namespace {

using number_of_differences = unsigned long long;

__device__ float hard_number(std::uint64_t i) {
  std::uint32_t const word = random_bits<32>(17, 23, i);
  if (word % 3000 == 7) return bit_cast<float>(0x7fc0'0000u);
  if (i / 64 % 29 == 5) return 0.0f;
  std::uint32_t const exponent = 127 - 12 + static_cast<std::uint32_t>(i / 32 % 25);
  return bit_cast<float>((word & 0x807f'ffffu) | exponent << 23);
}

template <class T> __global__ void fill(T* values, std::int64_t count) {
  std::int64_t const step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count; i += step)
    values[i] = static_cast<T>(hard_number(static_cast<std::uint64_t>(i)));
}

/// Counts the blocks of a matrix of whole blocks whose codes or scale are not those of quantize_block.
template <class Layout, class Operand, class T>
__global__ void count_differences(matrix_view<T const> in, std::uint8_t const* codes,
                                  code<typename Operand::format::scale> const* scales, Operand how, tensor_scale t,
                                  number_of_differences* differences) {
  using format = typename Operand::format;
  constexpr int tall = format::shape.rows, wide = format::shape.cols, bits = format::element::spec.bits();
  static_assert(bits == 4 || bits == 8);
  std::int64_t const across = in.cols / wide, blocks = in.rows / tall * across;
  std::int64_t const step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t b = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; b < blocks; b += step) {
    std::int64_t const top = b / across * tall, left = b % across * wide;
    T values[tall * wide];
    for (int i = 0; i < tall * wide; ++i) values[i] = in(top + i / wide, left + i % wide);
    auto const right =
        quantize_block(values, tall * wide, how, t, static_cast<std::uint64_t>(top * in.cols + left), in.cols);
    bool same = scales[detail::scale_grid<format, Layout>{in.rows, in.cols}.place(top, left / wide)] == right.scale;
    for (int i = 0; i < tall * wide; ++i) {
      std::int64_t const at = (top + i / wide) * in.cols + left + i % wide;
      int const mine = bits == 8 ? codes[at] : codes[at / 2] >> (at % 2 * 4) & 15;
      same = same && mine == right.codes[i];
    }
    if (!same) atomicAdd(differences, 1ull);
  }
}

template <class Layout, class Operand, class T>
number_of_differences differences_of(matrix_view<T const> in, unsigned char const* codes, void const* scales,
                                     Operand const& how, tensor_scale t) {
  number_of_differences zero = 0;
  device::array<number_of_differences> found(&zero, 1);
  using scale = code<typename Operand::format::scale>;
  count_differences<Layout>
      <<<4096, 128, 0, stream()>>>(in, codes, static_cast<scale const*>(scales), how, t, found.data);
  check(cudaGetLastError());
  return found.download(1)[0];
}

/// `shift`: bytes that the codes are off their alignment; with some the kernel for tiles serves.
/// `seed`: in device memory, where it is not that of the operand.
template <class Layout = row_major, class Operand, class T>
void large(char const* what, matrix_view<T const> in, Operand const& how, int shift = 0,
           std::uint64_t const* seed = nullptr) {
  group const g(what);
  current = what;
  using format = typename Operand::format;
  using scale = code<typename format::scale>;
  std::int64_t const bytes = codes_bytes<format>(in.rows, in.cols);
  std::int64_t const size = scale_count<format, Layout>(in.rows, in.cols) * static_cast<std::int64_t>(sizeof(scale));
  device::array<unsigned char> const codes(bytes + shift), scales(size);
  unsigned char* const first = codes.data + shift;
  quantized_view<format, Layout> const out{first, reinterpret_cast<scale*>(scales.data), nullptr, in.rows, in.cols};
  Operand given = how;
  if constexpr (requires { given.rounding.seed; })
    if (seed != nullptr) given.rounding.seed = ~given.rounding.seed;  // the one that must not be taken
  cuda::context where{stream()};
  where.seed = seed;
  status const s = cuda::quantize(in, out, given, where);
  expect(s == status::ok, message(s));
  check(cudaStreamSynchronize(stream()));
  auto const wrong = differences_of<Layout>(in, first, scales.data, how, {});
  expect(wrong == 0, (std::to_string(wrong) + " blocks differ").c_str(), static_cast<long>(in.rows * in.cols));
  if (wrong != 0) return;
  // The control: a bit of the last code flipped.
  unsigned char last = 0;
  check(cudaMemcpyAsync(&last, first + bytes - 1, 1, cudaMemcpyDeviceToHost, stream()));
  check(cudaStreamSynchronize(stream()));
  last ^= 0x80u;
  check(cudaMemcpyAsync(first + bytes - 1, &last, 1, cudaMemcpyHostToDevice, stream()));
  check(cudaStreamSynchronize(stream()));
  expect(differences_of<Layout>(in, first, scales.data, how, {}) == 1, "a wrong code in the last block is not found");
}

void large_norm(bf16_t const* values, std::int64_t count) {
  group const g("norm of 2^28 + 12345 elements, whose partials the last block adds in two passes");
  current = g.name;
  std::vector<bf16_t> host(static_cast<std::size_t>(count));
  check(cudaMemcpy(host.data(), values, host.size() * sizeof(bf16_t), cudaMemcpyDeviceToHost));
  norm_partial const right = partial_norm(host.data(), count);
  std::vector<cuda::norm_item<bf16_t>> items{{values, count, 0}};
  std::int64_t const chunks = cuda::plan_norms(items.data(), 1), bytes = cuda::norm_workspace_bytes(1, chunks);
  device::array<cuda::norm_item<bf16_t>> const list(items);
  device::array<unsigned char> const workspace(bytes, 0);
  device::array<norm_partial> const out(1);
  status const s = cuda::partial_norms(list.data, 1, chunks, out.data, context_of(workspace.data, bytes, {}));
  expect(s == status::ok, message(s));
  expect(out.download(1)[0] == right, "the norm differs", static_cast<long>(count));
}

// ---- lanes

template <class Operand, int Lanes, class T>
__global__ void quantize_in_lanes(T const* values, std::int64_t count, Operand how, tensor_scale t, std::uint8_t* codes,
                                  code<typename Operand::format::scale>* scales) {
  using format = typename Operand::format;
  constexpr int part = format::shape.cols / Lanes, bits = format::element::spec.bits();
  std::int64_t const first = (blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x) * part;
  bool const inside = first < count;
  lane_group<Lanes> const group;
  T mine[part];
  for (int i = 0; i < part; ++i) mine[i] = inside ? values[first + i] : T{};
  auto const result = quantize_lanes<Operand, part>(mine, how, t, static_cast<std::uint64_t>(first), group);
  if (!inside) return;
  auto* const words = reinterpret_cast<std::uint32_t*>(codes + first * bits / 8);
  for (int i = 0; i < part * bits / 32; ++i) words[i] = result.words[i];
  if (group.rank() == 0) scales[first / format::shape.cols] = result.scales[0];
}

template <int Lanes, class T, class Operand> void in_lanes(char const* what, Operand const& how) {
  using format = typename Operand::format;
  constexpr int part = format::shape.cols / Lanes;
  if constexpr (part > 0 && part * format::element::spec.bits() % 32 == 0) {  // a lane's codes fill whole words
    current = std::string(what) + ", lanes: " + std::to_string(Lanes);
    constexpr std::int64_t rows = 96, cols = 4096, count = rows * cols;
    auto const values = numbers<T>(rows, cols, 41, content::wild);
    device::array<T> const in(values);
    tensor_scale t{};
    if constexpr (has_tensor_scale<format>) t = tensor_scale_for<format>(900.0f, detail::tensor_range<Operand>());
    device::array<unsigned char> const codes(codes_bytes<format>(rows, cols));
    device::array<code<typename format::scale>> const scale(scale_count<format>(rows, cols));
    std::int64_t const threads = (count / part + 127) / 128;
    quantize_in_lanes<Operand, Lanes>
        <<<static_cast<unsigned>(threads), 128, 0, stream()>>>(in.data, count, how, t, codes.data, scale.data);
    check(cudaGetLastError());
    matrix_view<T const> const matrix{in.data, rows, cols, cols};
    auto const wrong = differences_of<row_major>(matrix, codes.data, scale.data, how, t);
    expect(wrong == 0, (std::to_string(wrong) + " blocks differ").c_str(), static_cast<long>(count));
  }
}

template <class T, class Operand> void all_lanes(char const* what, Operand const& how = {}) {
  group const g(what);
  in_lanes<1, T>(what, how);
  in_lanes<2, T>(what, how);
  in_lanes<4, T>(what, how);
  in_lanes<8, T>(what, how);
  in_lanes<16, T>(what, how);
  in_lanes<32, T>(what, how);
}

void lanes() {
  all_lanes<float>("lanes, mxfp4", operand<mxfp4>{});
  all_lanes<bf16_t>("lanes, mxfp8_e4m3", operand<mxfp8_e4m3>{});
  all_lanes<bf16_t>("lanes, mxfp4, stochastic<8>", operand<mxfp4, ocp_floor, stochastic<8>>{{}, {1, 2}});
  all_lanes<float>("lanes, mxfp4, stochastic<16>", operand<mxfp4, ocp_floor, stochastic<16>>{{}, {1, 2}});
  all_lanes<float>("lanes, mxfp4, hadamard<32>", operand<mxfp4, ocp_floor, nearest_even, hadamard<32>>{});
  all_lanes<float>("lanes, mxfp4, signed_hadamard<16>",
                   operand<mxfp4, ocp_floor, nearest_even, signed_hadamard<16>>{{}, {}, {0xd7e8}});
  all_lanes<float>("lanes, nvfp4", operand<nvfp4>{});
  all_lanes<float>("lanes, nvfp4, four_over_six<>", operand<nvfp4, four_over_six<>>{});
  all_lanes<float>("lanes, nvfp4, four_over_six<maximal_error>", operand<nvfp4, four_over_six<maximal_error>>{});
  all_lanes<bf16_t>("lanes, if4", operand<if4>{});
  all_lanes<float>("lanes, mxint8, stochastic<16>", operand<mxint8, ocp_floor, stochastic<16>>{{}, {1, 2}});
  all_lanes<float>("lanes, fp8_1x128", operand<fp8_1x128>{});
  all_lanes<bf16_t>(
      "lanes, fp8_1x128, signed_hadamard<128>",
      operand<fp8_1x128, division_scale, nearest_even, signed_hadamard<128>>{{}, {}, {0x9f1e'57c3'a0b6'd7e8}});
}

/// Numbers over all of a memory, as a matrix.
template <class T = bf16_t>
matrix_view<T const> filled(device::array<unsigned char> const& memory, std::int64_t rows, std::int64_t cols) {
  auto* const values = reinterpret_cast<T*>(memory.data);
  fill<<<4096, 256, 0, stream()>>>(values, rows * cols);
  check(cudaGetLastError());
  check(cudaStreamSynchronize(stream()));
  return {values, rows, cols, cols};
}

void large_tensors() {
  constexpr std::int64_t count = (std::int64_t{1} << 31) + 64, rows = 65568, cols = 32768;
  static_assert(rows * cols > count && rows % 32 == 0);
  device::array<unsigned char> const memory(rows * cols * static_cast<std::int64_t>(sizeof(bf16_t)));
  auto const row = filled(memory, 1, count);
  large("large, mxfp4, one row", row, operand<mxfp4>{});
  operand<mxfp4, ocp_floor, stochastic<8>> const random{{}, {1, 2}};
  matrix_view<bf16_t const> const short_rows{row.data, count / 64, 64, 64};
  large("large, mxfp4, short rows, stochastic<8>", short_rows, random);
  large("large, mxfp4, short rows, tiles", short_rows, random, 8);
  // Tensors so large that threads take several turns, in the ways that only stochastic rounding has.
  device::array<std::uint64_t> const seed(std::vector<std::uint64_t>{1, 2});
  matrix_view<bf16_t const> const part{row.data, 4099, 32768, 32768};
  large("large, mxfp4, stochastic<8>, seed on the device", part, random, 0, seed.data);
  large<tiled_128x4>("large, mxfp4, stochastic<8>, scales in tiles", part, random);
  large("large, mxfp4, stochastic<16>", part, operand<mxfp4, ocp_floor, stochastic<16>>{{}, {3, 4}});
  large("large, mxfp8_e4m3, stochastic<8>", part, operand<mxfp8_e4m3, ocp_floor, stochastic<8>>{{}, {5, 6}});
  large_norm(row.data, (std::int64_t{1} << 28) + 12345);
  auto const matrix = filled(memory, rows, cols);
  large("large, square<mxfp4, 32>", matrix, operand<square<mxfp4, 32>>{});
  large("large, mxfp4, by columns", transposed(matrix), operand<mxfp4>{});
  large("large, mxfp8_e4m3, rows", matrix, operand<mxfp8_e4m3>{});
  large("large, mxfp4 from float, stochastic<8>", filled<float>(memory, 2051, 65536), random);
}

}  // namespace

int main() {
  if (!device::has()) return 2;
  lanes();
  large_tensors();
  check(cudaDeviceSynchronize());
  return report();
}
