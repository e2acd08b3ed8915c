// SPDX-License-Identifier: Apache-2.0
// What GPU calls do beside quantizing one matrix: amax, rotations, norms, other layouts in dequantize, captured graphs,
// and what they refuse. A control shows that a wrong byte is found.
//
// nvcc -std=c++20 -O2 -arch=sm_90 -Iinclude -Itests/gpu tests/gpu/launches_calls.cu
// Exit code 1 where a byte differs, 2 without a GPU.
#include "launches_quantize.hpp"

using namespace gpu_tests;

namespace {

/// Device memory that starts as zeros.
std::vector<unsigned char> zeros(std::int64_t bytes) {
  return std::vector<unsigned char>(static_cast<std::size_t>(bytes));
}

template <class T, class Operand> void find_amax(char const* what, Operand const& how = {}) {
  group const g(what);
  for (extent const e : extents) {
    if (e.cols % detail::rotation_size<Operand> != 0) continue;
    for (content const kind : {content::tame, content::wild, content::poisoned}) {
      auto const values = numbers<T>(e.rows, e.cols, 5, kind);
      float right = 0;
      matrix_view<T const> const matrix{values.data(), e.rows, e.cols, e.cols};
      if (tensor_amax(matrix, how, right) != status::ok) std::exit(1);
      for (auto const& m : memory_shapes) {
        name_case(what, e, m);
        auto const in = place(values, e.rows, e.cols, m);
        image parts;
        std::int64_t const at = parts.add(4, 16, m.code_offset == 0 ? 0 : 4);
        compare_image(
            parts,
            [&](unsigned char* base) {
              return cuda::tensor_amax(in, how, reinterpret_cast<float*>(base + at), context_of(nullptr, 0, {}));
            },
            [&](unsigned char* base) { std::memcpy(base + at, &right, 4); });
      }
    }
  }
}

/// Rotations of the whole matrix and back, into other memory; the numbers are finite, as are the sums.
template <class T, class Rotation> void rotate(char const* what, Rotation const& rotation = {}) {
  group const g(what);
  for (extent const e : extents) {
    if (e.cols % Rotation::size != 0) continue;
    auto const values = numbers<T>(e.rows, e.cols, 6, content::plain);
    for (bool const inverse : {false, true}) {
      std::vector<T> right(values.size());
      for (std::size_t first = 0; first < values.size(); first += Rotation::size) {
        float run[Rotation::size];
        for (int i = 0; i < Rotation::size; ++i)
          run[i] = static_cast<float>(values[first + static_cast<std::size_t>(i)]);
        if (inverse) rotation.invert(run);
        else rotation.apply(run);
        for (int i = 0; i < Rotation::size; ++i) right[first + static_cast<std::size_t>(i)] = static_cast<T>(run[i]);
      }
      for (auto const& m : memory_shapes) {
        name_case(what, e, m);
        auto const in = place(values, e.rows, e.cols, m);
        auto const& to = memory_shapes[m.code_offset == 0 ? 0 : 3];
        auto const s = strides_of(m.code_offset == 3 ? m : to, e.rows, e.cols);
        image parts;
        std::int64_t const at = parts.add(s.size * static_cast<std::int64_t>(sizeof(T)), 256, 0);
        compare_image(
            parts,
            [&](unsigned char* base) {
              matrix_view<T> const out{reinterpret_cast<T*>(base + at) + s.start, e.rows, e.cols, s.row, s.col};
              auto const where = context_of(nullptr, 0, {});
              return inverse ? cuda::rotate_back(in, out, rotation, where) : cuda::rotate(in, out, rotation, where);
            },
            [&](unsigned char* base) {
              for (std::int64_t r = 0; r < e.rows; ++r)
                for (std::int64_t c = 0; c < e.cols; ++c)
                  std::memcpy(base + at + (s.start + r * s.row + c * s.col) * static_cast<std::int64_t>(sizeof(T)),
                              &right[static_cast<std::size_t>(r * e.cols + c)], sizeof(T));
            });
      }
    }
  }
}

/// A rotation in place: NaN around the matrix stays.
template <class T, class Rotation> void rotate_in_place(char const* what, Rotation const& rotation) {
  group const g(what);
  for (extent const e : extents) {
    if (e.cols % Rotation::size != 0) continue;
    auto const values = numbers<T>(e.rows, e.cols, 7, content::plain);
    for (int const shape : {0, 3, 5, 7, 11}) {
      auto const& m = memory_shapes[shape];
      name_case(what, e, m);
      auto const in = place(values, e.rows, e.cols, m);
      auto const s = strides_of(m, e.rows, e.cols);
      auto const bytes = static_cast<std::size_t>(s.size) * sizeof(T);
      image parts;
      std::int64_t const at = parts.add(static_cast<std::int64_t>(bytes), 256, 0);
      compare_image(
          parts,
          [&](unsigned char* base) {
            check(cudaMemcpyAsync(base + at, in.data - s.start, bytes, cudaMemcpyDeviceToDevice, stream()));
            matrix_view<T> const out{reinterpret_cast<T*>(base + at) + s.start, e.rows, e.cols, s.row, s.col};
            matrix_view<T const> const same = out;
            return cuda::rotate(same, out, rotation, context_of(nullptr, 0, {}));
          },
          [&](unsigned char* base) {
            std::memset(base + at, 0xff, bytes);
            for (std::int64_t r = 0; r < e.rows; ++r)
              for (std::int64_t first = 0; first < e.cols; first += Rotation::size) {
                float run[Rotation::size];
                for (int i = 0; i < Rotation::size; ++i)
                  run[i] = static_cast<float>(values[static_cast<std::size_t>(r * e.cols + first + i)]);
                rotation.apply(run);
                for (int i = 0; i < Rotation::size; ++i) {
                  T const value = static_cast<T>(run[i]);
                  std::int64_t const place_of = s.start + r * s.row + (first + i) * s.col;
                  std::memcpy(base + at + place_of * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
                }
              }
          });
    }
  }
}

/// dequantize with what launches_formats.cu leaves out: a rotation, a tiled layout, a constant of the rule.
template <class Layout, class T, class Operand> void decode(char const* what, Operand const& how) {
  group const g(what);
  using format = typename Operand::format;
  for (extent const e : extents) {
    if (e.cols % detail::rotation_size<Operand> != 0) continue;
    auto const values = numbers<float>(e.rows, e.cols, 8, e.cols == 1000 ? content::poisoned : content::tame);
    current = what;
    auto const coded = answer_of<Layout>(matrix_view<float const>{values.data(), e.rows, e.cols, e.cols}, how);
    float scale = coded.tensor_scale;
    std::vector<float> floats(values.size());
    quantized_view<format const, Layout> const host{coded.codes.data(), coded.scales.data(), &scale, e.rows, e.cols};
    if (dequantize(host, matrix_view<float>{floats.data(), e.rows, e.cols, e.cols}, how) != status::ok) std::exit(1);
    device::array<code<typename format::scale>> const scales(coded.scales);
    device::array<std::uint8_t> const codes(coded.codes);
    device::array<float> const tensor_scale(&scale, 1);
    quantized_view<format const, Layout> const in{codes.data, scales.data, tensor_scale.data, e.rows, e.cols};
    image parts;
    std::int64_t const at = parts.add(e.rows * e.cols * static_cast<std::int64_t>(sizeof(T)), 256, 0);
    name_case(what, e, memory_shapes[0]);
    compare_image(
        parts,
        [&](unsigned char* base) {
          matrix_view<T> const out{reinterpret_cast<T*>(base + at), e.rows, e.cols, e.cols};
          return cuda::dequantize(in, out, how, context_of(nullptr, 0, {}));
        },
        [&](unsigned char* base) {
          for (std::size_t i = 0; i < floats.size(); ++i) {
            T const value = static_cast<T>(floats[i]);
            std::memcpy(base + at + static_cast<std::int64_t>(i * sizeof(T)), &value, sizeof(T));
          }
        });
  }
}

// ---- norms

/// The partial norms of a list in one launch, and that the launch leaves its counters as it found them.
template <class T> void compare_norms(std::vector<cuda::norm_item<T>>& items, std::vector<norm_partial> const& right) {
  auto const count = static_cast<int>(items.size());
  std::int64_t const chunks = cuda::plan_norms(items.data(), count), bytes = cuda::norm_workspace_bytes(count, chunks);
  device::array<cuda::norm_item<T>> const list(items);
  device::array<unsigned char> const workspace(zeros(bytes));
  image parts;
  std::int64_t const out = parts.add(count * static_cast<std::int64_t>(sizeof(norm_partial)), 16, 8);
  compare_image(
      parts,
      [&](unsigned char* base) {
        return cuda::partial_norms(list.data, count, chunks, reinterpret_cast<norm_partial*>(base + out),
                                   context_of(workspace.data, bytes, {}));
      },
      [&](unsigned char* base) { std::memcpy(base + out, right.data(), right.size() * sizeof(norm_partial)); });
  auto const left = workspace.download(static_cast<std::size_t>(bytes));
  expect(std::all_of(left.begin(), left.begin() + count * static_cast<std::ptrdiff_t>(sizeof(gpu::norm_counters)),
                     [](unsigned char c) { return c == 0; }),
         "counters are zero again");
}

template <class T> void norms_of_lists(char const* what) {
  group const g(what);
  current = what;
  std::int64_t const sizes[] = {0,    1,      15,    16,   17,    0,      511,    512,    2049,
                                4095, 4096,   4097,  8192, 16383, 16384,  16385,  32768,  50000,
                                3,    300001, 98304, 0,    12345, 131072, 131073, 524288, 0};
  for (content const kind : {content::plain, content::tame, content::wild, content::poisoned}) {
    auto const values = numbers<T>(1, 1 << 21, 9, kind);
    device::array<T> const device(values);
    std::vector<cuda::norm_item<T>> items;
    std::vector<norm_partial> right;
    std::int64_t at = 0;
    for (std::int64_t const size : sizes) {
      items.push_back({device.data + at, size, 0});
      right.push_back(partial_norm(values.data() + at, size));
      at += size % 5 == 0 ? (size + 15) / 16 * 16 : size;  // some start at multiples of 16 bytes, some do not
    }
    compare_norms(items, right);
  }
}

/// Many tensors, most of them small and some of several chunks, so that a block of threads has chunks of several.
template <class T> void norms_of_many(char const* what, int count) {
  group const g(what);
  current = what;
  auto const values = numbers<T>(1, 1 << 20, 19, content::poisoned);
  device::array<T> const device(values);
  std::vector<cuda::norm_item<T>> items;
  std::vector<norm_partial> right;
  for (int i = 0; i < count; ++i) {
    std::int64_t const size = i % 97 == 5 ? 40000 + i : i * 37 % 100, at = i * 11;
    items.push_back({device.data + at, size, 0});
    right.push_back(partial_norm(values.data() + at, size));
  }
  compare_norms(items, right);
}

/// The device has `given`, and what it finds in its memory.
template <class T, class Operand>
void norm_beside_codes(char const* what, Operand const& how, Operand const& given, on_device const& d) {
  group const g(what);
  using format = typename Operand::format;
  constexpr extent matrices[] = {{1, 32},   {64, 64},   {200, 160}, {128, 4096},
                                 {512, 32}, {3, 16416}, {1, 32768}, {0, 32}};
  for (extent const e : matrices) {
    auto const values = numbers<T>(e.rows, e.cols, 10, e.cols == 160 ? content::poisoned : content::tame);
    name_case(what, e, memory_shapes[0]);
    auto const right = answer_of<row_major>(matrix_view<T const>{values.data(), e.rows, e.cols, e.cols}, how);
    norm_partial const norm = partial_norm(values.data(), e.rows * e.cols);
    auto const in = place(values, e.rows, e.cols, memory_shapes[0]);
    std::int64_t const chunks = (e.rows * e.cols + norm_order::chunk - 1) / norm_order::chunk;
    std::int64_t const bytes = cuda::workspace_bytes<Operand>() + cuda::norm_workspace_bytes(1, chunks);
    device::array<unsigned char> const workspace(zeros(bytes));
    image parts;
    quantized_parts<format, row_major> const out(parts, e.rows, e.cols, 0);
    std::int64_t const at = parts.add(sizeof(norm_partial), 16, 8);
    compare_image(
        parts,
        [&](unsigned char* base) {
          return cuda::quantize_with_norm(in, out.view(base), given, reinterpret_cast<norm_partial*>(base + at),
                                          context_of(workspace.data, bytes, d));
        },
        [&](unsigned char* base) {
          out.write(base, right);
          std::memcpy(base + at, &norm, sizeof norm);
        });
  }
}

template <class T, class Operand> void norm_beside_codes(char const* what, Operand const& how) {
  norm_beside_codes<T>(what, how, how, {});
}

// ---- captured graphs

/// One graph, replayed with other seeds, and so other signs, and other amaxes: what the host computes with those.
void replay() {
  group const g("captured graph, other seeds and amaxes");
  current = g.name;
  using how = operand<nvfp4, two_level, stochastic<8>, random_hadamard<16>>;
  constexpr std::int64_t rows = 128, cols = 512;
  how const captured{};
  auto const values = numbers<bf16_t>(rows, cols, 12, content::tame);
  auto const in = place(values, rows, cols, memory_shapes[0]);
  std::uint64_t words[2] = {1, 1};
  float value = 1;
  device::array<std::uint64_t> seed(words, 2);
  device::array<float> amax(&value, 1);
  on_device d;
  d.seed = seed.data;
  d.amax = amax.data;
  constexpr std::int64_t bytes = cuda::workspace_bytes<how>();
  image parts;
  quantized_parts<nvfp4, row_major> const out(parts, rows, cols, 0);
  std::int64_t const workspace = parts.add_ignored(bytes);
  device::array<unsigned char> const memory(zeros(parts.size));
  cudaGraph_t graph{};
  cudaGraphExec_t ready{};
  check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal));
  status const s = cuda::quantize(in, out.view(memory.data), captured, context_of(memory.data + workspace, bytes, d));
  check(cudaStreamEndCapture(stream(), &graph));
  expect(s == status::ok, message(s));
  check(cudaGraphInstantiate(&ready, graph, 0));
  for (int step = 0; step < 5; ++step) {
    words[0] = 1000 + static_cast<std::uint64_t>(step);
    words[1] = 7u - static_cast<std::uint64_t>(step);
    value = 2.0f + static_cast<float>(step);
    seed.upload(words, 2);
    amax.upload(&value, 1);
    auto const right = answer_of<row_major>(matrix_view<bf16_t const>{values.data(), rows, cols, cols},
                                            reseed(how{{value}}, words[0], words[1]));
    compare_image(
        parts,
        [&](unsigned char* base) {  // the graph writes to memory of its own, which is poisoned and copied
          check(cudaMemcpyAsync(memory.data, base, static_cast<std::size_t>(parts.size), cudaMemcpyDeviceToDevice,
                                stream()));
          check(cudaGraphLaunch(ready, stream()));
          check(cudaMemcpyAsync(base, memory.data, static_cast<std::size_t>(parts.size), cudaMemcpyDeviceToDevice,
                                stream()));
          return status::ok;
        },
        [&](unsigned char* base) { out.write(base, right); });
  }
  check(cudaGraphExecDestroy(ready));
  check(cudaGraphDestroy(graph));
}

// ---- refusals

/// The call gives this status and writes nothing.
template <class Call> void refused(char const* what, status right, Call const& call) {
  current = what;
  image parts;
  parts.add(1 << 16, 256, 0);
  compare_image(
      parts, [&](unsigned char* base) { return call(base + 256); }, [](unsigned char*) {}, right);
}

template <class Number> Number* number_at(unsigned char* base, std::int64_t at) {
  return reinterpret_cast<Number*>(base + at);
}

/// The memory of refused calls: input at 0, codes at 32 KiB, scales, tensor scale and workspace behind them.
constexpr std::int64_t codes_at = 32768, scales_at = 49152, scale_at = 57344, workspace_at = 61440;

template <BlockFormat B> quantized_view<B> output_at(unsigned char* base, std::int64_t rows, std::int64_t cols) {
  auto* const scale = has_tensor_scale<B> ? number_at<float>(base, scale_at) : nullptr;
  return {base + codes_at, number_at<code<typename B::scale>>(base, scales_at), scale, rows, cols};
}
matrix_view<float const> input_at(unsigned char* base, std::int64_t rows, std::int64_t cols) {
  return {number_at<float>(base, 0), rows, cols, cols};
}

void refuse_views() {
  operand<mxfp4> const how{};
  refused("no input", status::null_pointer, [&](unsigned char* p) {
    return cuda::quantize(matrix_view<float const>{nullptr, 2, 32, 32}, output_at<mxfp4>(p, 2, 32), how, {stream()});
  });
  refused("no codes", status::null_pointer, [&](unsigned char* p) {
    auto out = output_at<mxfp4>(p, 2, 32);
    out.codes = nullptr;
    return cuda::quantize(input_at(p, 2, 32), out, how, {stream()});
  });
  refused("another shape", status::shape_mismatch, [&](unsigned char* p) {
    return cuda::quantize(input_at(p, 2, 32), output_at<mxfp4>(p, 2, 64), how, {stream()});
  });
  refused("negative rows", status::negative_extent, [&](unsigned char* p) {
    return cuda::quantize(input_at(p, -2, 32), output_at<mxfp4>(p, -2, 32), how, {stream()});
  });
  refused("more than memory", status::extent_overflow, [&](unsigned char* p) {
    std::int64_t const many = std::int64_t{1} << 40;
    return cuda::quantize(input_at(p, many, many), output_at<mxfp4>(p, many, many), how, {stream()});
  });
  refused("a misaligned input", status::misaligned_pointer, [&](unsigned char* p) {
    return cuda::quantize(input_at(p + 2, 2, 32), output_at<mxfp4>(p, 2, 32), how, {stream()});
  });
  refused("misaligned scales", status::misaligned_pointer, [&](unsigned char* p) {
    auto out = output_at<fp8_1x128>(p, 2, 128);
    out.scales = number_at<code<fp32>>(p, scales_at + 2);
    return cuda::quantize(input_at(p, 2, 128), out, operand<fp8_1x128>{}, {stream()});
  });
  refused("a rotation that does not divide", status::rotation_does_not_divide, [&](unsigned char* p) {
    return cuda::quantize(input_at(p, 2, 48), output_at<mxfp4>(p, 2, 48),
                          operand<mxfp4, ocp_floor, nearest_even, hadamard<32>>{}, {stream()});
  });
  refused("a scale that is none", status::invalid_scale, [&](unsigned char* p) {
    return cuda::quantize(input_at(p, 2, 32), output_at<mxfp4>(p, 2, 32), operand<mxfp4, fixed_scale>{{-1.0f}},
                          {stream()});
  });
  refused("dequantize to memory that overlaps", status::overlapping_output, [&](unsigned char* p) {
    quantized_view<mxfp4 const> const in = output_at<mxfp4>(p, 2, 32);
    return cuda::dequantize(in, matrix_view<float>{number_at<float>(p, 0), 2, 32, 1}, how, {stream()});
  });
  refused("dequantize to a misaligned pointer", status::misaligned_pointer, [&](unsigned char* p) {
    quantized_view<mxfp4 const> const in = output_at<mxfp4>(p, 2, 32);
    return cuda::dequantize(in, matrix_view<bf16_t>{number_at<bf16_t>(p, 1), 2, 32, 32}, how, {stream()});
  });
  auto const off_seed = [](unsigned char* p) {
    cuda::context where{stream()};
    where.seed = number_at<std::uint64_t const>(p, workspace_at + 4);
    return where;
  };
  refused("quantize with a misaligned seed", status::misaligned_pointer, [&](unsigned char* p) {
    return cuda::quantize(input_at(p, 2, 32), output_at<mxfp4>(p, 2, 32), how, off_seed(p));
  });
  refused("quantize_both with a misaligned seed of the columns", status::misaligned_pointer, [&](unsigned char* p) {
    cuda::context where{stream()};
    where.cols_seed = off_seed(p).seed;
    auto const cols = output_at<mxfp4>(p + 1024, 32, 32);
    return cuda::quantize_both(input_at(p, 32, 32), output_at<mxfp4>(p, 32, 32), how, cols, how, where);
  });
  refused("dequantize with a misaligned seed", status::misaligned_pointer, [&](unsigned char* p) {
    quantized_view<mxfp4 const> const in = output_at<mxfp4>(p, 2, 32);
    return cuda::dequantize(in, matrix_view<float>{number_at<float>(p, 0), 2, 32, 32}, how, off_seed(p));
  });
  refused("rotate with a misaligned seed", status::misaligned_pointer, [&](unsigned char* p) {
    return cuda::rotate(input_at(p, 2, 32), matrix_view<float>{number_at<float>(p, codes_at), 2, 32, 32},
                        hadamard<32>{}, off_seed(p));
  });
  refused("tensor_amax with a misaligned seed", status::misaligned_pointer, [&](unsigned char* p) {
    return cuda::tensor_amax(input_at(p, 2, 32), how, number_at<float>(p, codes_at), off_seed(p));
  });
  refused("rotate 48 columns by 32", status::rotation_does_not_divide, [&](unsigned char* p) {
    return cuda::rotate(input_at(p, 2, 48), matrix_view<float>{number_at<float>(p, codes_at), 2, 48, 48},
                        hadamard<32>{}, {stream()});
  });
}

void refuse_workspaces() {
  operand<nvfp4> const how{};
  auto const small = [](unsigned char* p, std::int64_t at, std::int64_t bytes) {
    cuda::context where{};
    where.stream = stream();
    where.workspace = p + at;
    where.workspace_bytes = bytes;
    return where;
  };
  constexpr std::int64_t one = cuda::workspace_bytes<operand<nvfp4>>();
  refused("no workspace", status::workspace_too_small, [&](unsigned char* p) {
    return cuda::quantize(input_at(p, 2, 32), output_at<nvfp4>(p, 2, 32), how, {stream()});
  });
  refused("a small workspace", status::workspace_too_small, [&](unsigned char* p) {
    return cuda::quantize(input_at(p, 2, 32), output_at<nvfp4>(p, 2, 32), how, small(p, workspace_at, one - 1));
  });
  refused("a misaligned workspace", status::misaligned_pointer, [&](unsigned char* p) {
    return cuda::quantize(input_at(p, 2, 32), output_at<nvfp4>(p, 2, 32), how, small(p, workspace_at + 8, one));
  });
  refused("a workspace for one of two", status::workspace_too_small, [&](unsigned char* p) {
    auto cols_out = output_at<nvfp4>(p, 32, 2);
    cols_out.codes += 4096;
    cols_out.scales += 4096;
    cols_out.tensor_scale += 64;
    return cuda::quantize_both(input_at(p, 2, 32), output_at<nvfp4>(p, 2, 32), how, cols_out, how,
                               small(p, workspace_at, one));
  });
  refused("no place for the tensor's scale", status::missing_tensor_scale, [&](unsigned char* p) {
    auto out = output_at<nvfp4>(p, 2, 32);
    out.tensor_scale = nullptr;
    return cuda::quantize(input_at(p, 2, 32), out, how, small(p, workspace_at, one));
  });
  refused("an amax that is not finite", status::invalid_amax, [&](unsigned char* p) {
    operand<nvfp4> known{};
    known.rule.amax = bit_cast<float>(detail::float_infinity);
    return cuda::quantize(input_at(p, 2, 32), output_at<nvfp4>(p, 2, 32), known, small(p, workspace_at, one));
  });
}

void refuse_norms() {
  operand<mxfp4> const how{};
  auto const with_norm = [&](unsigned char* p, matrix_view<float const> in, std::int64_t bytes) {
    cuda::context where{};
    where.stream = stream();
    where.workspace = p + workspace_at;
    where.workspace_bytes = bytes;
    return cuda::quantize_with_norm(in, output_at<mxfp4>(p, in.rows, in.cols), how,
                                    number_at<norm_partial>(p, scale_at), where);
  };
  refused("norm: a small workspace", status::workspace_too_small,
          [&](unsigned char* p) { return with_norm(p, input_at(p, 2, 64), cuda::norm_workspace_bytes(1, 1) - 1); });
  refused("norm: rows with gaps", status::not_contiguous, [&](unsigned char* p) {
    return with_norm(p, {number_at<float>(p, 0), 2, 32, 64}, 1024);
  });
  refused("norm: an input off 16 bytes", status::not_contiguous,
          [&](unsigned char* p) { return with_norm(p, input_at(p + 4, 2, 64), 1024); });
  refused("norm: blocks that are not whole", status::not_contiguous,
          [&](unsigned char* p) { return with_norm(p, input_at(p, 2, 48), 1024); });
  refused("norm: a row that is not whole", status::not_contiguous,
          [&](unsigned char* p) { return with_norm(p, input_at(p, 1, 33), 1024); });
  refused("norms: a misaligned list", status::misaligned_pointer, [&](unsigned char* p) {
    cuda::context where{};
    where.stream = stream();
    where.workspace = p + workspace_at;
    where.workspace_bytes = 1024;
    return cuda::partial_norms(number_at<cuda::norm_item<float> const>(p, 4), 1, 1,
                               number_at<norm_partial>(p, scale_at), where);
  });
}

/// The same case, right and with one byte of each kind of result flipped: only the right one passes.
void control() {
  long const compared_before = compared;
  current = "control";
  constexpr std::int64_t rows = 65, cols = 129;
  auto const values = numbers<bf16_t>(rows, cols, 3, content::tame);
  auto const in = place(values, rows, cols, memory_shapes[0]);
  operand<nvfp4> const how{};
  auto right = answer_of<row_major>(matrix_view<bf16_t const>{values.data(), rows, cols, cols}, how);
  auto const fails = [&] {
    long const before = failures;
    compare_quantize<row_major>(in, how, right, 0);
    long const found = failures - before;
    failures = before;
    return found == 2;  // one a poison
  };
  std::printf("the control provokes three failures:\n");
  bool const passes = !fails();
  right.codes[right.codes.size() - 1] ^= 1u;
  bool const codes = fails();
  right.codes[right.codes.size() - 1] ^= 1u;
  right.scales[7] ^= 1u;
  bool const scales = fails();
  right.scales[7] ^= 1u;
  right.tensor_scale = std::nextafter(right.tensor_scale, 1e30f);
  bool const tensor_scale = fails();
  compared = compared_before;
  group const g("control, one wrong bit is found");
  current = g.name;
  expect(passes && codes && scales && tensor_scale, "a comparison that cannot fail");
}

}  // namespace

int main() {
  if (!device::has()) return 2;
  control();
  {
    group const g("refusals");
    refuse_views();
    refuse_workspaces();
    refuse_norms();
  }
  replay();
  find_amax<bf16_t>("tensor_amax, bf16", operand<nvfp4>{});
  find_amax<fp16_t>("tensor_amax, fp16", operand<nvfp4>{});
  find_amax<float>("tensor_amax, float, hadamard<32>", operand<nvfp4, two_level, nearest_even, hadamard<32>>{});
  find_amax<bf16_t>("tensor_amax, bf16, hadamard<128>", operand<nvfp4, two_level, nearest_even, hadamard<128>>{});
  find_amax<float>("tensor_amax, saturate",
                   operand<nvfp4, two_level, nearest_even, no_rotation, nonfinite::saturate>{});
  rotate<bf16_t>("rotate, bf16, hadamard<16>", hadamard<16>{});
  rotate<float>("rotate, float, hadamard<32>", hadamard<32>{});
  rotate<fp16_t>("rotate, fp16, hadamard<64>", hadamard<64>{});
  rotate<bf16_t>("rotate, bf16, hadamard<128>", hadamard<128>{});
  rotate<float>("rotate, float, signed_hadamard<128>", signed_hadamard<128>{0x9f1e'57c3'a0b6'd7e8});
  rotate<bf16_t>("rotate, bf16, hadamard<4>", hadamard<4>{});
  rotate_in_place<bf16_t>("rotate in place, bf16, hadamard<32>", hadamard<32>{});
  rotate_in_place<float>("rotate in place, float, hadamard<128>", hadamard<128>{});
  decode<row_major, float>("dequantize, mxfp4, hadamard<32>", operand<mxfp4, ocp_floor, nearest_even, hadamard<32>>{});
  decode<row_major, bf16_t>(
      "dequantize, nvfp4, signed_hadamard<16>",
      operand<nvfp4, two_level, nearest_even, signed_hadamard<16>>{{}, {}, {recipes::nvfp4_signs}});
  decode<row_major, fp16_t>("dequantize, mxfp4, hadamard<128>",
                            operand<mxfp4, ocp_floor, nearest_even, hadamard<128>>{});
  decode<row_major, float>("dequantize, mxfp4, floor_four_thirds", operand<mxfp4, floor_four_thirds>{});
  decode<tiled_128x4, bf16_t>("dequantize, mxfp4, tiled_128x4", operand<mxfp4>{});
  decode<tiled_128x4, float>("dequantize, square<nvfp4, 16>, tiled_128x4", operand<square<nvfp4, 16>>{});
  decode<col_major, bf16_t>("dequantize, mxfp4, col_major", operand<mxfp4>{});
  decode<col_major, float>("dequantize, square<nvfp4, 16>, col_major", operand<square<nvfp4, 16>>{});
  decode<col_major, bf16_t>("dequantize, mxfp4, random_hadamard<96>, col_major",
                            operand<mxfp4, ocp_floor, nearest_even, random_hadamard<96>>{});
  norms_of_lists<float>("norms, float");
  norms_of_lists<bf16_t>("norms, bf16");
  norms_of_lists<fp16_t>("norms, fp16");
  norms_of_many<bf16_t>("norms, 2500 tensors, bf16", 2500);
  norms_of_many<float>("norms, 5003 tensors, float", 5003);
  norm_beside_codes<bf16_t>("quantize_with_norm, mxfp4, bf16", operand<mxfp4>{});
  norm_beside_codes<float>("quantize_with_norm, nvfp4, float", operand<nvfp4>{});
  norm_beside_codes<fp16_t>("quantize_with_norm, mxfp8_e4m3, fp16", operand<mxfp8_e4m3>{});
  norm_beside_codes<bf16_t>("quantize_with_norm, nvfp4, stochastic<8>",
                            operand<nvfp4, two_level, stochastic<8>>{{}, {1, 2}});
  seed_in_memory const seed;
  operand<mxfp4, even_scale, stochastic<8>, random_hadamard<16>> const rotated{};
  norm_beside_codes<bf16_t>("quantize_with_norm, random_hadamard<16>, stochastic<8>, seed in device memory",
                            seed(rotated), rotated, seed.given());
  check(cudaDeviceSynchronize());
  return report();
}
