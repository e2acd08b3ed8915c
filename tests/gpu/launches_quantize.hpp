// SPDX-License-Identifier: Apache-2.0
// quantize and quantize_both on a GPU against the host: one operand over matrices of many extents, in all shapes of
// memory.
#pragma once

#include "launches.hpp"

namespace gpu_tests {

#if defined(LOFT_TEST_SHARED_LIMIT)
/// CUDA, with the shared memory of another chip: 65536 gives the tiles of AMD's.
struct limited_device {
  using stream = gpu::cuda_device::stream;
  static constexpr int shared_limit = LOFT_TEST_SHARED_LIMIT;
  template <class... Arguments> static status launch(Arguments... arguments) noexcept {
    return gpu::cuda_device::launch(arguments...);
  }
  static status zero(void* memory, std::size_t bytes, stream on) noexcept {
    return gpu::cuda_device::zero(memory, bytes, on);
  }
};
using chip = gpu::launcher<limited_device>;
#else
using chip = cuda;
#endif

/// What the host makes of a matrix.
template <BlockFormat B> struct answer {
  std::vector<std::uint8_t> codes;
  std::vector<code<typename B::scale>> scales;
  float tensor_scale = 0;
};

template <class Layout, class Operand, class T>
answer<typename Operand::format> answer_of(matrix_view<T const> in, Operand const& how) {
  using format = typename Operand::format;
  answer<format> result;
  result.codes.resize(static_cast<std::size_t>(codes_bytes<format>(in.rows, in.cols)), 0x77);
  result.scales.resize(static_cast<std::size_t>(scale_count<format, Layout>(in.rows, in.cols)));
  std::memset(static_cast<void*>(result.scales.data()), 0x77, result.scales.size() * sizeof(result.scales[0]));
  std::int64_t const bands = (in.rows + format::shape.rows - 1) / format::shape.rows;
  std::int64_t const wanted = in.rows * in.cols < 1 << 15 ? 1 : std::max(1u, std::thread::hardware_concurrency());
  std::int64_t const parts = std::max<std::int64_t>(1, std::min(wanted, bands));
  std::vector<float> scales(static_cast<std::size_t>(parts));
  auto const work = [&](std::int64_t part) {
    row_range range{bands * part / parts * format::shape.rows, -1};
    if (part + 1 != parts) range.count = bands * (part + 1) / parts * format::shape.rows - range.first;
    float* const scale = has_tensor_scale<format> ? &scales[static_cast<std::size_t>(part)] : nullptr;
    status const s =
        quantize(in, quantized_view<format, Layout>{result.codes.data(), result.scales.data(), scale, in.rows, in.cols},
                 how, range);
    if (s != status::ok) std::printf("FAIL %s: the host: %s\n", current.c_str(), message(s)), std::exit(1);
  };
  std::vector<std::thread> threads;
  for (std::int64_t part = 1; part < parts; ++part) threads.emplace_back(work, part);
  work(0);
  for (auto& thread : threads) thread.join();
  result.tensor_scale = scales[0];
  return result;
}

/// The parts of an image that a quantized tensor has.
template <BlockFormat B, class Layout> struct quantized_parts {
  std::int64_t codes, scales, tensor_scale, rows, cols;

  quantized_parts(image& parts, std::int64_t r, std::int64_t c, int shift) : rows{r}, cols{c} {
    using scale = code<typename B::scale>;
    codes = parts.add(codes_bytes<B>(rows, cols), 16, shift);
    scales = parts.add(scale_count<B, Layout>(rows, cols) * static_cast<std::int64_t>(sizeof(scale)), 16,
                       shift == 0 ? 0 : static_cast<std::int64_t>(alignof(scale)));
    tensor_scale = parts.add(sizeof(float), 16, shift == 0 ? 0 : 4);
  }
  quantized_view<B, Layout> view(unsigned char* base) const {
    auto* const scale = has_tensor_scale<B> ? reinterpret_cast<float*>(base + tensor_scale) : nullptr;
    return {base + codes, reinterpret_cast<code<typename B::scale>*>(base + scales), scale, rows, cols};
  }
  void write(unsigned char* base, answer<B> const& a) const {
    if (rows == 0 || cols == 0) return;
    std::memcpy(base + codes, a.codes.data(), a.codes.size());
    std::memcpy(base + scales, a.scales.data(), a.scales.size() * sizeof(a.scales[0]));
    if (has_tensor_scale<B>) std::memcpy(base + tensor_scale, &a.tensor_scale, sizeof(float));
  }
};

/// What is given to a device beside the operand.
struct on_device {
  float const* amax = nullptr;
  std::uint64_t const* seed = nullptr;
  std::uint64_t const* cols_seed = nullptr;
  bool workspace = true;
};

inline cuda::context context_of(unsigned char* workspace, std::int64_t bytes, on_device const& d) {
  cuda::context result{};
  result.stream = stream();
  if (d.workspace && bytes != 0) result.workspace = workspace, result.workspace_bytes = bytes;
  result.amax = d.amax;
  result.seed = d.seed;
  result.cols_seed = d.cols_seed;
  return result;
}

template <class Layout, class Operand, class T>
void compare_quantize(matrix_view<T const> in, Operand const& how, answer<typename Operand::format> const& right,
                      int shift, on_device const& d = {}) {
  constexpr std::int64_t bytes = chip::workspace_bytes<Operand>();
  image parts;
  quantized_parts<typename Operand::format, Layout> const out(parts, in.rows, in.cols, shift);
  std::int64_t const workspace = parts.add_ignored(bytes);
  compare_image(
      parts,
      [&](unsigned char* base) {
        return chip::quantize(in, out.view(base), how, context_of(base + workspace, bytes, d));
      },
      [&](unsigned char* base) { out.write(base, right); });
}

template <class Layout, class ColsLayout = Layout, class First, class Second, class T>
void compare_both(matrix_view<T const> in, First const& how, Second const& cols_how,
                  answer<typename First::format> const& right, answer<typename Second::format> const& cols_right,
                  int shift, on_device const& d = {}) {
  constexpr std::int64_t bytes = chip::workspace_bytes<First, Second>();
  image parts;
  quantized_parts<typename First::format, Layout> const out(parts, in.rows, in.cols, shift);
  quantized_parts<typename Second::format, ColsLayout> const cols_out(parts, in.cols, in.rows, shift);
  std::int64_t const workspace = parts.add_ignored(bytes);
  compare_image(
      parts,
      [&](unsigned char* base) {
        return chip::quantize_both(in, out.view(base), how, cols_out.view(base), cols_how,
                                   context_of(base + workspace, bytes, d));
      },
      [&](unsigned char* base) {
        out.write(base, right);
        cols_out.write(base, cols_right);
      });
}

/// A seed and a stream in device memory, and the operand or rotation that a call with them works with.
struct seed_in_memory {
  std::uint64_t words[2] = {1ull << 60 | 7, 1ull << 33 | 5};
  device::array<std::uint64_t> memory{words, 2};

  on_device given() const {
    on_device d;
    d.seed = memory.data;
    return d;
  }
  template <class How> How operator()(How const& how) const { return reseed(how, words[0], words[1]); }
};

struct extent {
  std::int64_t rows, cols;
};
inline constexpr extent extents[] = {{1, 1},     {3, 7},      {1, 32},    {64, 64},  {65, 129}, {128, 4096},
                                     {33, 1000}, {1000, 33},  {200, 160}, {0, 5},    {5, 0},    {2, 8200},
                                     {96, 2176}, {129, 2304}, {130, 256}, {128, 128}};

inline void name_case(char const* what, extent e, memory_shape const& m) {
  current = std::string(what) + ", " + std::to_string(e.rows) + " x " + std::to_string(e.cols) + ", " + m.name;
}

/// One operand, one matrix, all shapes of memory: they all have the answer of the host.
template <class Layout, class T, class Host, class Device>
void one_matrix(char const* what, std::vector<T> const& values, extent e, Host const& host_how, Device const& how,
                on_device const& d) {
  matrix_view<T const> const matrix{values.data(), e.rows, e.cols, e.cols};
  current = what;
  auto const right = answer_of<Layout>(matrix, host_how);
  for (auto const& m : memory_shapes) {
    name_case(what, e, m);
    compare_quantize<Layout>(place(values, e.rows, e.cols, m), how, right, m.code_offset, d);
  }
}

/// One operand over all extents that its rotation divides. `host_how` may hold what the device finds in its memory.
template <class T, class Layout = row_major, class Host, class Device>
void all_matrices(char const* what, Host const& host_how, Device const& how, on_device const& d = {}) {
  unsigned seed = 11;
  for (extent const e : extents) {
    if (e.cols % detail::rotation_size<Device> != 0) continue;
    ++seed;
    one_matrix<Layout>(what, numbers<T>(e.rows, e.cols, seed, content::tame), e, host_how, how, d);
    if (e.cols != 1000 && e.cols != 2176 && e.cols != 128) continue;
    one_matrix<Layout>(what, numbers<T>(e.rows, e.cols, seed, content::wild), e, host_how, how, d);
    one_matrix<Layout>(what, numbers<T>(e.rows, e.cols, seed, content::poisoned), e, host_how, how, d);
  }
}
template <class T, class Layout = row_major, class Operand> void all_matrices(char const* what, Operand const& how) {
  all_matrices<T, Layout>(what, how, how);
}

/// A matrix and its transpose from one read, over all extents that both rotations divide. The hosts' operands may hold
/// what the device finds in its memory.
template <class T, class Layout = row_major, class ColsLayout = Layout, class First, class Second>
void both_ways(char const* what, First const& host_how, Second const& host_cols_how, First const& how,
               Second const& cols_how, on_device const& d = {}) {
  unsigned seed = 71;
  for (extent const e : extents) {
    if (e.cols % detail::rotation_size<First> != 0 || e.rows % detail::rotation_size<Second> != 0) continue;
    auto const values = numbers<T>(e.rows, e.cols, ++seed, e.cols == 1000 ? content::poisoned : content::tame);
    matrix_view<T const> const matrix{values.data(), e.rows, e.cols, e.cols};
    auto const right = answer_of<Layout>(matrix, host_how);
    auto const cols_right = answer_of<ColsLayout>(transposed(matrix), host_cols_how);
    for (auto const& m : memory_shapes) {
      name_case(what, e, m);
      compare_both<Layout, ColsLayout>(place(values, e.rows, e.cols, m), how, cols_how, right, cols_right,
                                       m.code_offset, d);
    }
  }
}
template <class T, class Layout = row_major, class ColsLayout = Layout, class First, class Second>
void both_ways(char const* what, First const& how, Second const& cols_how) {
  both_ways<T, Layout, ColsLayout>(what, how, cols_how, how, cols_how);
}

}  // namespace gpu_tests
