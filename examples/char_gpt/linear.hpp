// SPDX-License-Identifier: Apache-2.0
// The linear layer, forward and backward, with the operands of its three products quantized as a LOFT recipe says.
//
//   Fprop  out    [rows, OC] = inp [rows, C]   * weight   [OC, C]^T
//   Dgrad  dinp   [rows, C] += dout [rows, OC] * weight^T [C, OC]^T
//   Wgrad  dweight [OC, C]  += dout^T [OC, rows] * inp^T [C, rows]^T
//
// Each operand is written above with the dimension that the product sums over last: blocks that share a scale lie along
// it. A transposed operand is a view of the same memory; its quantized copy has the layout of the original, so that the
// floating-point product that follows is the same code for every recipe.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <Eigen/Core>
#include <loft/diagnostics.hpp>
#include <loft/recipe.hpp>
#include <loft/tensor.hpp>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "thread_pool.hpp"

namespace char_gpt {

enum slot { fprop_left, fprop_right, dgrad_left, dgrad_right, wgrad_left, wgrad_right, slot_count };

/// What quantizing did to the operands it was applied to.
struct quantization_report {
  struct entry {
    double decibels = 0;  // sum over tensors of 10 log10(power of the values / power of the error)
    int tensors = 0;
  };
  std::array<entry, slot_count> slots{};
  double bits = 0, elements = 0;  // codes and scales
};

/// What the products need beside their tensors.
template <class T>
struct workspace {
  thread_pool& pool;
  std::array<std::vector<T>, 4> copies{};  // the quantized operands of one pass
  std::uint64_t seed = 0, stream = 0;      // of stochastic rounding; operand i uses stream + i
  quantization_report* report = nullptr;   // filled where it is not null
};

template <class T>
using const_view = loft::matrix_view<T const>;

/// A transposed operand that is quantized along the rows of its original: what a layer keeps of its input for the
/// backward pass, token by token.
template <class Operand>
struct kept {
  using format = typename Operand::format;
  Operand how{};
};

/// An operand as the float product finds it, and how the recipe has it quantized.
template <class O, class T>
struct request {
  request(O const& operand, const_view<T> view) : how{operand}, in{view} {}  // clang 14 deduces O and T only from this
  O const& how;
  const_view<T> in;
};

/// The operand a product reads: the original, or its quantized copy in `copy`.
template <class O, class T>
loft::status substitute(request<O, T> const& r, T* copy, std::uint64_t seed, std::uint64_t stream, T const*& read) {
  if constexpr (std::is_same_v<O, loft::none>) {
    read = r.in.data;
    return loft::status::ok;
  } else {
    static_assert(std::is_same_v<T, float>, "a quantized operand is float");
    read = copy;
    loft::matrix_view<float> const out{copy, r.in.rows, r.in.cols, r.in.row_stride, r.in.col_stride};
    if constexpr (requires { r.how.how; })
      return loft::fake_quantize(loft::transposed(r.in), loft::transposed(out), loft::reseed(r.how.how, seed, stream));
    else return loft::fake_quantize(r.in, out, loft::reseed(r.how, seed, stream));
  }
}

template <class O, class T>
void add_to_report(request<O, T> const& r, T const* read, slot at, quantization_report& report) {
  auto const& in = r.in;
  double const elements = static_cast<double>(in.rows) * static_cast<double>(in.cols);
  report.elements += elements;
  if constexpr (std::is_same_v<O, loft::none>) {
    report.bits += elements * 32;
  } else {
    using format = typename O::format;
    constexpr bool is_kept = requires { r.how.how; };
    auto const rows = is_kept ? in.cols : in.rows, cols = is_kept ? in.rows : in.cols;
    report.bits +=
        8.0 * static_cast<double>(loft::codes_bytes<format>(rows, cols)) +
        8.0 * sizeof(loft::code<typename format::scale>) * static_cast<double>(loft::scale_count<format>(rows, cols)) +
        (loft::has_tensor_scale<format> ? 32 : 0);
    loft::signal_and_noise energies;
    const_view<T> const quantized{read, in.rows, in.cols, in.row_stride, in.col_stride};
    if (auto const outcome = loft::signal_to_quantization_noise(in, quantized, energies); outcome != loft::status::ok)
      throw std::runtime_error{loft::message(outcome)};
    if (energies.signal == 0) return;  // no ratio to tell
    report.slots[at].decibels += energies.decibels();
    ++report.slots[at].tensors;
  }
}

/// What the products read for these operands, whose slots count up from `first`. They are quantized at the same time,
/// each by one thread: in parts, every thread would look for the largest value of the whole.
/// Throws what LOFT refuses.
template <class T, class... O>
std::array<T const*, sizeof...(O)> prepare(workspace<T>& work, slot first, request<O, T> const&... requests) {
  constexpr int count = sizeof...(O);
  std::array<T const*, sizeof...(O)> read{requests.in.data...};
  if constexpr ((!std::is_same_v<O, loft::none> || ...)) {
    std::array const elements{static_cast<std::size_t>(requests.in.rows * requests.in.cols)...};
    std::array<loft::status, sizeof...(O)> outcomes{};
    for (std::size_t i = 0; i < count; ++i)
      if (work.copies[i].size() < elements[i]) work.copies[i].resize(elements[i]);
    work.pool.run(count, [&](int piece) {
      std::size_t const p = static_cast<std::size_t>(piece);
      std::size_t i = 0;
      auto const stream = work.stream + static_cast<std::uint64_t>(first) + p;
      ((i++ == p ? outcomes[p] = substitute(requests, work.copies[p].data(), work.seed, stream, read[p])
                 : loft::status::ok),
       ...);
    });
    for (auto const outcome : outcomes)
      if (outcome != loft::status::ok) throw std::runtime_error{loft::message(outcome)};
  }
  if (work.report != nullptr) {
    std::size_t i = 0;
    ((add_to_report(requests, read[i], static_cast<slot>(first + static_cast<int>(i)), *work.report), ++i), ...);
  }
  return read;
}

template <class T>
using matrix_map = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
template <class T>
using const_matrix_map = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> const>;

/// out = inp * weight^T + bias; bias may be null.
template <class R, class T>
void matmul_forward(T* out, T const* inp, T const* weight, T const* bias, int batch, int time, int channels,
                    int out_channels, R const& recipe, workspace<T>& work) {
  std::int64_t const rows = std::int64_t{batch} * time;
  auto const [x, w] =
      prepare<T>(work, fprop_left, request{recipe.fprop.left, const_view<T>{inp, rows, channels, channels}},
                 request{recipe.fprop.right, const_view<T>{weight, out_channels, channels, channels}});
  work.pool.for_parts(rows, [&, x = x, w = w](range r) {
    matrix_map<T> result{out + r.begin * out_channels, r.end - r.begin, out_channels};
    const_matrix_map<T> const left{x + r.begin * channels, r.end - r.begin, channels};
    const_matrix_map<T> const right{w, out_channels, channels};
    result.noalias() = left * right.transpose();
    if (bias != nullptr)
      for (std::int64_t row = 0; row < result.rows(); ++row)
        for (int i = 0; i < out_channels; ++i) result.data()[row * out_channels + i] += bias[i];
  });
}

/// Adds to dinp, dweight and dbias; dbias may be null.
template <class R, class T>
void matmul_backward(T* dinp, T* dweight, T* dbias, T const* dout, T const* inp, T const* weight, int batch, int time,
                     int channels, int out_channels, R const& recipe, workspace<T>& work) {
  std::int64_t const rows = std::int64_t{batch} * time;
  const_view<T> const x{inp, rows, channels, channels}, w{weight, out_channels, channels, channels},
      dy{dout, rows, out_channels, out_channels};
  auto const read =
      prepare<T>(work, dgrad_left, request{recipe.dgrad.left, dy}, request{recipe.dgrad.right, loft::transposed(w)},
                 request{recipe.wgrad.left, loft::transposed(dy)}, request{recipe.wgrad.right, loft::transposed(x)});
  work.pool.for_parts(rows, [&](range r) {
    const_matrix_map<T> const left{read[0] + r.begin * out_channels, r.end - r.begin, out_channels};
    const_matrix_map<T> const right{read[1], out_channels, channels};
    matrix_map<T>{dinp + r.begin * channels, r.end - r.begin, channels}.noalias() += left * right;
  });
  work.pool.for_parts(out_channels, [&](range r) {
    const_matrix_map<T> const left{read[2], rows, out_channels};
    const_matrix_map<T> const right{read[3], rows, channels};
    matrix_map<T>{dweight + r.begin * channels, r.end - r.begin, channels}.noalias() +=
        left.middleCols(r.begin, r.end - r.begin).transpose() * right;
    if (dbias != nullptr)  // not quantized: it is a sum, not a product
      for (std::int64_t row = 0; row < rows; ++row)
        for (auto i = r.begin; i < r.end; ++i) dbias[i] += dout[row * out_channels + i];
  });
}

/// Replaces values [rows, cols] by what a recipe with a `kept` operand keeps of them; others keep them as they are.
template <class R, class T>
void keep_values(T* values, std::int64_t rows, int cols, R const& recipe) {
  if constexpr (requires { recipe.wgrad.right.how; }) {
    loft::matrix_view<T> const view{values, rows, cols, cols};
    if (auto const outcome = loft::fake_quantize(view, view, recipe.wgrad.right.how); outcome != loft::status::ok)
      throw std::runtime_error{loft::message(outcome)};
  }
}

/// The functions for one recipe, so that what calls them need not be a template. The recipe must outlive this.
template <class T>
class linear {
 public:
  template <class R>
  explicit linear(R const& recipe)
      : recipe_{&recipe},
        forward_{[](T* out, T const* inp, T const* weight, T const* bias, int batch, int time, int channels,
                    int out_channels, void const* r, workspace<T>& work) {
          matmul_forward(out, inp, weight, bias, batch, time, channels, out_channels, *static_cast<R const*>(r), work);
        }},
        backward_{[](T* dinp, T* dweight, T* dbias, T const* dout, T const* inp, T const* weight, int batch, int time,
                     int channels, int out_channels, void const* r, workspace<T>& work) {
          matmul_backward(dinp, dweight, dbias, dout, inp, weight, batch, time, channels, out_channels,
                          *static_cast<R const*>(r), work);
        }},
        keep_{[](T* values, std::int64_t rows, int cols, void const* r) {
          keep_values(values, rows, cols, *static_cast<R const*>(r));
        }} {}

  void forward(T* out, T const* inp, T const* weight, T const* bias, int batch, int time, int channels,
               int out_channels, workspace<T>& work) const {
    forward_(out, inp, weight, bias, batch, time, channels, out_channels, recipe_, work);
  }
  void backward(T* dinp, T* dweight, T* dbias, T const* dout, T const* inp, T const* weight, int batch, int time,
                int channels, int out_channels, workspace<T>& work) const {
    backward_(dinp, dweight, dbias, dout, inp, weight, batch, time, channels, out_channels, recipe_, work);
  }
  void keep(T* values, std::int64_t rows, int cols) const { keep_(values, rows, cols, recipe_); }

 private:
  void const* recipe_;
  void (*forward_)(T*, T const*, T const*, T const*, int, int, int, int, void const*, workspace<T>&);
  void (*backward_)(T*, T*, T*, T const*, T const*, T const*, int, int, int, int, void const*, workspace<T>&);
  void (*keep_)(T*, std::int64_t, int, void const*);
};

}  // namespace char_gpt
