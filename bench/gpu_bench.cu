// SPDX-License-Identifier: Apache-2.0
// Quantizers, rotations and norms on a GPU: microseconds, bytes a second, and the ratio to a device-to-device copy of the
// same tensor in the same process. One source for CUDA and HIP.
//
// CUDA: nvcc -std=c++20 -O3 -arch=sm_90 -Iinclude bench/gpu_bench.cu -lbenchmark -o gpu_bench
// HIP:  hipcc -x hip -std=c++20 -O3 --offload-arch=gfx950 -Iinclude bench/gpu_bench.cu -lbenchmark -o gpu_bench
// Then: ./gpu_bench --benchmark_out=gpu.json --benchmark_out_format=json && python3 bench/performance.py --gpu gpu.json
//
// Every case is compared with the host to the bit before it is timed; outputs are poisoned first.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "gpu_device.hpp"
#include "loft/loft.hpp"

using namespace loft;

namespace {

constexpr int launches = 10;  // of one sample, so that the cost of taking the time is spread
constexpr int samples = 31;

template <class T> __global__ void fill(T* values, std::int64_t count, std::uint64_t seed) {
  std::int64_t const i = blockIdx.x * std::int64_t{256} + threadIdx.x;
  if (i >= count) return;
  // Near a normal distribution: four uniform numbers; every block of 32 has a magnitude of its own, 2^-8 to 2^8.
  u32x4 const r = detail::counter_words<philox4x32<10>>(seed, 0, static_cast<std::uint64_t>(i));
  float const sum =
      (static_cast<float>(r.x) + static_cast<float>(r.y) + static_cast<float>(r.z) + static_cast<float>(r.w)) *
          0x1p-32f -
      2.0f;
  int const exponent = static_cast<int>(random_bits<8>(seed + 1, 0, static_cast<std::uint64_t>(i / 32)) % 17) - 8;
  values[i] = static_cast<T>(sum * detail::power_of_two(exponent));
}

/// Calls f(first, count) for parts of the rows on all processors.
template <class Function> void on_all_cores(std::int64_t rows, std::int64_t step, Function f) {
  std::int64_t const cores = std::max(1u, std::thread::hardware_concurrency());
  std::int64_t const part = (rows + cores * step - 1) / (cores * step) * step;
  std::vector<std::thread> threads;
  for (std::int64_t first = 0; first < rows; first += part)
    threads.emplace_back([=] { f(first, std::min(part, rows - first)); });
  for (auto& thread : threads) thread.join();
}

struct shape {
  std::int64_t rows, cols;
};

/// A tensor on both sides.
template <class T> struct tensor {
  shape size;
  device::array<T> data;
  std::vector<T> host;

  tensor(shape s, std::uint64_t seed) : size{s}, data(s.rows * s.cols) {
    fill<<<static_cast<unsigned>((s.rows * s.cols + 255) / 256), 256>>>(data.data, s.rows * s.cols, seed);
    host = data.download();
  }
  matrix_view<T const> view() const { return {data.data, size.rows, size.cols, size.cols}; }
  matrix_view<T const> host_view() const { return {host.data(), size.rows, size.cols, size.cols}; }
};

/// A quantized tensor on both sides; the device's is poisoned.
template <class Operand, class Layout = row_major> struct quantized {
  using format = typename Operand::format;
  using scale = code<typename format::scale>;
  shape size;
  device::array<std::uint8_t> codes;
  device::array<scale> scales;
  device::array<float> factor{1};

  explicit quantized(shape s)
      : size{s}, codes(codes_bytes<format>(s.rows, s.cols)), scales(scale_count<format, Layout>(s.rows, s.cols)) {
    poison();
  }
  void poison() {
    codes.fill(device::poison);
    scales.fill(device::poison);
    factor.fill(device::poison);
  }
  quantized_view<format, Layout> view() { return {codes.data, scales.data, factor.data, size.rows, size.cols}; }

  /// True where it holds what the host makes of the input.
  template <class T> bool equals_host(matrix_view<T> in, Operand const& how) {
    std::vector<std::uint8_t> want(static_cast<std::size_t>(codes.size));
    std::vector<scale> want_scales(static_cast<std::size_t>(scales.size));
    float factor_wanted = 0;
    quantized_view<format, Layout> const out{want.data(), want_scales.data(), &factor_wanted, size.rows, size.cols};
    std::atomic<bool> good{true};
    on_all_cores(size.rows, std::max(128, format::shape.rows), [&](std::int64_t first, std::int64_t count) {
      float own = 0;
      auto part = out;
      part.tensor_scale = &own;
      if (loft::quantize(in, part, how, row_range{first, count}) != status::ok) good = false;
      if (first == 0) factor_wanted = own;
    });
    auto const got = codes.download();
    auto const got_scales = scales.download();
    float const factor_got = factor.download()[0];
    std::int64_t differences = 0;
    for (std::size_t i = 0; i < want.size(); ++i) differences += want[i] != got[i];
    if (differences != 0) std::fprintf(stderr, "%lld bytes of codes differ\n", static_cast<long long>(differences));
    bool const scales_equal =
        std::memcmp(want_scales.data(), got_scales.data(), want_scales.size() * sizeof(scale)) == 0;
    if (!scales_equal) std::fprintf(stderr, "scales differ\n");
    return good && differences == 0 && scales_equal && (!has_tensor_scale<format> || factor_wanted == factor_got);
  }
  std::int64_t bytes() const { return codes.size + scales.size * static_cast<std::int64_t>(sizeof(scale)); }
};

void require(status s, char const* what) {
  if (s == status::ok) return;
  std::fprintf(stderr, "%s: %s\n", what, message(s));
  std::exit(1);
}

/// Times a launch: `bytes` it reads and writes.
void time_launches(benchmark::State& state, std::int64_t bytes, std::function<void()> const& launch) {
  device_timer timer;
  for (int i = 0; i < 3; ++i) launch();
  for (auto _ : state) {
    timer.start();
    for (int i = 0; i < launches; ++i) launch();
    state.SetIterationTime(timer.seconds() / launches);
  }
  state.counters["bytes"] = static_cast<double>(bytes);
  state.counters["GB/s"] =
      benchmark::Counter(static_cast<double>(bytes) * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

std::string at(char const* name, shape s) {
  return std::string{name} + "/" + std::to_string(s.rows) + "x" + std::to_string(s.cols);
}

template <class Function> void add(std::string const& name, Function f) {
  benchmark::RegisterBenchmark(name.c_str(), f)
      ->UseManualTime()
      ->Iterations(1)
      ->Repetitions(samples)
      ->ReportAggregatesOnly(true)
      ->Unit(benchmark::kMicrosecond);
}

bool checks = true;

template <class Operand, class T, class Layout = row_major> void rows(char const* name, shape s, Operand how = {}) {
  add(at(name, s), [=](benchmark::State& state) {
    static tensor<T>* in = nullptr;
    static quantized<Operand, Layout>* out = nullptr;
    static std::string of;
    if (of != at(name, s)) {
      delete in;
      delete out;
      in = new tensor<T>(s, 17);
      out = new quantized<Operand, Layout>(s);
      of = at(name, s);
      require(chip::quantize(in->view(), out->view(), how, {}), name);
      if (checks && !out->equals_host(in->host_view(), how)) return state.SkipWithError("differs from the host");
    }
    time_launches(state, s.rows * s.cols * static_cast<std::int64_t>(sizeof(T)) + out->bytes(),
                  [&] { require(chip::quantize(in->view(), out->view(), how, {}), name); });
  });
}

template <class Operand, class T> void both(char const* name, shape s, Operand how = {}) {
  add(at(name, s), [=](benchmark::State& state) {
    static tensor<T>* in = nullptr;
    static quantized<Operand>*out = nullptr, *across = nullptr;
    static std::string of;
    auto const launch = [&] {
      require(chip::quantize_both(in->view(), out->view(), how, across->view(), how, {}), name);
    };
    if (of != at(name, s)) {
      delete in;
      delete out;
      delete across;
      in = new tensor<T>(s, 18);
      out = new quantized<Operand>(s);
      across = new quantized<Operand>({s.cols, s.rows});
      of = at(name, s);
      launch();
      if (checks && !(out->equals_host(in->host_view(), how) && across->equals_host(transposed(in->host_view()), how)))
        return state.SkipWithError("differs from the host");
    }
    time_launches(state, s.rows * s.cols * static_cast<std::int64_t>(sizeof(T)) + out->bytes() + across->bytes(),
                  launch);
  });
}

template <class Rotation> void rotation(char const* name, shape s, Rotation r = {}) {
  add(at(name, s), [=](benchmark::State& state) {
    static tensor<bf16_t>* in = nullptr;
    static device::array<bf16_t>* out = nullptr;
    static std::string of;
    auto const launch = [&] {
      require(chip::rotate(in->view(), matrix_view<bf16_t>{out->data, s.rows, s.cols, s.cols}, r, {}), name);
    };
    if (of != at(name, s)) {
      delete in;
      delete out;
      in = new tensor<bf16_t>(s, 19);
      out = new device::array<bf16_t>(s.rows * s.cols);
      of = at(name, s);
      launch();
      auto const got = out->download();
      std::atomic<bool> good{true};
      on_all_cores(s.rows * s.cols / Rotation::size, 1, [&](std::int64_t first, std::int64_t count) {
        for (std::int64_t run = first; run < first + count; ++run) {
          float values[Rotation::size];
          for (int i = 0; i < Rotation::size; ++i)
            values[i] = static_cast<float>(in->host[static_cast<std::size_t>(run * Rotation::size + i)]);
          r.apply(values);
          for (int i = 0; i < Rotation::size; ++i)
            if (bf16_t{values[i]}.bits() != got[static_cast<std::size_t>(run * Rotation::size + i)].bits())
              good = false;
        }
      });
      if (checks && !good) return state.SkipWithError("differs from the host");
    }
    time_launches(state, s.rows * s.cols * 4, launch);
  });
}

template <class Operand> void decode_to_bf16(char const* name, shape s, Operand how = {}) {
  add(at(name, s), [=](benchmark::State& state) {
    static quantized<Operand>* in = nullptr;
    static device::array<bf16_t>* out = nullptr;
    static std::string of;
    auto const launch = [&] {
      require(chip::dequantize(in->view(), matrix_view<bf16_t>{out->data, s.rows, s.cols, s.cols}, how, {}), name);
    };
    if (of != at(name, s)) {
      delete in;
      delete out;
      tensor<bf16_t> values(s, 20);
      in = new quantized<Operand>(s);
      out = new device::array<bf16_t>(s.rows * s.cols);
      of = at(name, s);
      require(chip::quantize(values.view(), in->view(), how, {}), name);
      launch();
      auto const got = out->download();
      std::atomic<bool> good{true};
      on_all_cores(s.rows, 1, [&](std::int64_t first, std::int64_t count) {
        std::vector<float> want(static_cast<std::size_t>(count * s.cols));
        matrix_view<float> const to{want.data(), count, s.cols, s.cols};
        matrix_view<bf16_t const> const from{values.host.data() + first * s.cols, count, s.cols, s.cols};
        if (loft::fake_quantize<Operand>(from, to, how) != status::ok) good = false;
        for (std::size_t i = 0; i < want.size(); ++i)
          if (bf16_t{want[i]}.bits() != got[static_cast<std::size_t>(first * s.cols) + i].bits()) good = false;
      });
      if (checks && !good) return state.SkipWithError("differs from the host");
    }
    time_launches(state, s.rows * s.cols * 2 + in->bytes(), launch);
  });
}

/// Norms of tensors of these sizes.
void norms(std::string const& name, std::vector<std::int64_t> const& sizes) {
  add(name, [=](benchmark::State& state) {
    struct list {
      std::vector<device::array<bf16_t>> data;
      std::vector<chip::norm_item<bf16_t>> items;
      device::array<chip::norm_item<bf16_t>> device_items;
      device::array<norm_partial> out;
      device::array<unsigned char> workspace;
      std::int64_t chunks, elements = 0;
      explicit list(std::vector<std::int64_t> const& n)
          : device_items(static_cast<std::int64_t>(n.size())), out(static_cast<std::int64_t>(n.size())) {
        for (auto count : n) {
          data.emplace_back(count);
          fill<<<static_cast<unsigned>((count + 255) / 256), 256>>>(data.back().data, count, 21);
          items.push_back({data.back().data, count, 0});
          elements += count;
        }
        chunks = chip::plan_norms(items.data(), static_cast<int>(items.size()));
        device_items.upload(items);
        workspace = device::array<unsigned char>(chip::norm_workspace_bytes(static_cast<int>(items.size()), chunks), 0);
      }
    };
    static list* in = nullptr;
    static std::string of;
    auto const launch = [&] {
      chip::context where;
      where.workspace = in->workspace.data;
      where.workspace_bytes = in->workspace.size;
      require(chip::partial_norms(in->device_items.data, static_cast<int>(in->items.size()), in->chunks, in->out.data,
                                  where),
              "norms");
    };
    if (of != name) {
      delete in;
      in = new list(sizes);
      of = name;
      in->out.fill(device::poison);
      launch();
      auto const got = in->out.download();
      std::atomic<bool> good{true};
      on_all_cores(static_cast<std::int64_t>(sizes.size()), 1, [&](std::int64_t first, std::int64_t count) {
        for (std::int64_t i = first; i < first + count; ++i) {
          auto const host = in->data[static_cast<std::size_t>(i)].download();
          if (!(partial_norm(host.data(), sizes[static_cast<std::size_t>(i)]) == got[static_cast<std::size_t>(i)]))
            good = false;
        }
      });
      if (checks && !good) return state.SkipWithError("differs from the host");
    }
    time_launches(state, in->elements * 2, launch);
  });
}

template <class Operand, class T> void rows_with_norm(char const* name, shape s, Operand how = {}) {
  add(at(name, s), [=](benchmark::State& state) {
    static tensor<T>* in = nullptr;
    static quantized<Operand>* out = nullptr;
    static device::array<unsigned char>* workspace = nullptr;
    static device::array<norm_partial>* norm = nullptr;
    static std::string of;
    auto const launch = [&] {
      chip::context where;
      where.workspace = workspace->data;
      where.workspace_bytes = workspace->size;
      require(chip::quantize_with_norm(in->view(), out->view(), how, norm->data, where), name);
    };
    if (of != at(name, s)) {
      delete in;
      delete out;
      in = new tensor<T>(s, 22);
      out = new quantized<Operand>(s);
      norm = new device::array<norm_partial>(1);
      workspace = new device::array<unsigned char>(
          chip::norm_workspace_bytes(1, s.rows * s.cols / norm_order::chunk + 1) + 64, 0);
      of = at(name, s);
      launch();
      norm_partial const got = norm->download()[0];
      if (checks &&
          (!out->equals_host(in->host_view(), how) || !(got == partial_norm(in->host.data(), s.rows * s.cols))))
        return state.SkipWithError("differs from the host");
    }
    time_launches(state, s.rows * s.cols * static_cast<std::int64_t>(sizeof(T)) + out->bytes(), launch);
  });
}

void copy(shape s, int size) {
  add(at(size == 2 ? "copy bf16" : "copy float", s), [=](benchmark::State& state) {
    device::array<unsigned char> from(s.rows * s.cols * size), to(s.rows * s.cols * size);
    time_launches(state, 2 * s.rows * s.cols * size, [&] {
      auto const bytes = static_cast<std::size_t>(from.size);
      device::check(LOFT_RUNTIME(MemcpyAsync)(to.data, from.data, bytes, LOFT_RUNTIME(MemcpyDeviceToDevice), nullptr),
                    "copy");
    });
  });
}

void at_shape(shape s) {
  using random = stochastic<8>;
  copy(s, 2);
  copy(s, 4);
  rows<operand<mxfp4>, bf16_t>("MXFP4 row, nearest", s);
  rows<operand<mxfp8_e4m3>, bf16_t>("MXFP8 row", s);
  rows<operand<nvfp4>, bf16_t>("NVFP4 row, amax known", s, {{600.0f}, {}, {}});
  rows<operand<mxfp4, ocp_floor, random>, bf16_t>("MXFP4 row, stochastic", s, {{}, {7, 3}, {}});
  rows<operand<mxfp4>, float>("MXFP4 row from float", s);
  both<operand<mxfp8_e4m3>, bf16_t>("MXFP8 row + transposed", s);
  both<operand<mxfp4>, bf16_t>("MXFP4 row + transposed", s);
  both<operand<square<nvfp4, 16>>, bf16_t>("NVFP4 16x16 tiles, row + transposed", s, {{600.0f}, {}, {}});
  rotation<hadamard<16>>("Hadamard 16", s);
  rotation<hadamard<32>>("Hadamard 32", s);
  rotation<hadamard<128>>("Hadamard 128", s);
  rows<operand<mxfp4, ocp_floor, nearest_even, hadamard<32>>, bf16_t>("Hadamard 32 + MXFP4", s);
  rows<operand<nvfp4, two_level, random, signed_hadamard<16>>, bf16_t>("signed Hadamard 16 + stochastic NVFP4", s,
                                                                       {{600.0f}, {7, 3}, {0x5a3c'96e1'0ff0'1234u}});
  decode_to_bf16<operand<mxfp4>>("MXFP4 to bf16", s);
  norms(at("norm of one tensor", s), {s.rows * s.cols});
  rows_with_norm<operand<mxfp4>, bf16_t>("MXFP4 + norm", s);
  rows<operand<mxfp4>, bf16_t, tiled_128x4>("MXFP4 row, scales in 128x4 tiles", s);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  std::string const chip = device_name();
  if (chip.empty()) {
    std::fprintf(stderr, "no GPU\n");
    return 2;
  }
  checks = std::getenv("LOFT_BENCH_UNCHECKED") == nullptr;
  benchmark::AddCustomContext("chip", chip);
  benchmark::AddCustomContext("compiler", device_compiler());
  for (shape s : {shape{16384, 8192}, shape{4096, 4096}, shape{1024, 8192}}) at_shape(s);
  std::vector<std::int64_t> sizes;  // of a transformer of 24 layers
  for (int layer = 0; layer < 24; ++layer)
    for (std::int64_t n : {3 * 1536 * 1536, 1536 * 1536, 4 * 1536 * 1536, 4 * 1536 * 1536, 1536, 1536})
      sizes.push_back(n);
  sizes.push_back(50304 * 1536);
  sizes.push_back(1536);
  norms("norm of 146 tensors", sizes);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
