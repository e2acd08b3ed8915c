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
#include <loft/recipes.hpp>
#include <loft/tensor.hpp>
#include <loft/train.hpp>
#include <type_traits>
#include <vector>

#include "char_gpt/support/errors.hpp"
#include "char_gpt/support/thread_pool.hpp"

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
template <class T> struct workspace {
  thread_pool& pool;
  std::array<std::vector<T>, 4> copies{};  // the quantized operands of one pass
  std::uint64_t seed = 0, stream = 0;      // of all that is random, see loft::reseed
  quantization_report* report = nullptr;   // filled where it is not null
  std::vector<T> gradient{};               // of one weight, before an estimator

  /// Zeros.
  T* gradient_of(std::int64_t count) {
    gradient.assign(static_cast<std::size_t>(count), T{0});
    return gradient.data();
  }
};

template <class T> using const_view = loft::matrix_view<T const>;

/// An operand as the float product finds it, and how the recipe has it quantized.
template <class O, class T> struct request {
  request(O const& operand, const_view<T> view) : how{operand}, in{view} {}  // clang 14 deduces O and T only from this
  O const& how;
  const_view<T> in;
};

/// The operand a product reads: the original, or its quantized copy in `copy`.
template <class O, class T> loft::status substitute(request<O, T> const& r, T* copy, T const*& read) {
  if constexpr (std::is_same_v<O, loft::none>) {
    read = r.in.data;
    return loft::status::ok;
  } else {
    static_assert(std::is_same_v<T, float>, "a quantized operand is float");
    read = copy;
    loft::matrix_view<float> const out{copy, r.in.rows, r.in.cols, r.in.row_stride, r.in.col_stride};
    return fake_quantize(r.in, out, r.how);  // unqualified: kinds of operands bring their own
  }
}

/// Elements from the first of a view to behind its last.
template <class T> std::size_t extent_of(const_view<T> v) {
  return v.rows == 0 || v.cols == 0
             ? 0
             : static_cast<std::size_t>((v.rows - 1) * v.row_stride + (v.cols - 1) * v.col_stride + 1);
}

/// Bits of codes and scales that an operand [rows, cols] is read from.
template <class O> double bits_of(O const& how, std::int64_t rows, std::int64_t cols) {
  double const elements = static_cast<double>(rows) * static_cast<double>(cols);
  if constexpr (requires { typename O::format; }) {
    using format = typename O::format;
    return 8.0 * static_cast<double>(loft::codes_bytes<format>(rows, cols)) +
           8.0 * sizeof(loft::code<typename format::scale>) *
               static_cast<double>(loft::scale_count<format>(rows, cols)) +
           (loft::has_tensor_scale<format> ? 32 : 0);
  } else if constexpr (requires { how.then; }) {
    if constexpr (std::is_same_v<decltype(how.then), loft::none>) return bits_of(how.first, cols, rows);
    else return bits_of(how.then, rows, cols);
  } else if constexpr (requires { how.how; }) {  // with more beside it that is not counted
    return bits_of(how.how, rows, cols);
  } else if constexpr (requires { typename O::element; }) {
    return elements * O::element::spec.bits();
  } else {
    return elements * 32;
  }
}

template <class O, class T>
void add_to_report(request<O, T> const& r, T const* read, slot at, quantization_report& report) {
  auto const& in = r.in;
  report.elements += static_cast<double>(in.rows) * static_cast<double>(in.cols);
  report.bits += bits_of(r.how, in.rows, in.cols);
  if constexpr (!std::is_same_v<O, loft::none>) {
    loft::signal_and_noise energies;
    const_view<T> const quantized{read, in.rows, in.cols, in.row_stride, in.col_stride};
    require_ok(loft::signal_to_quantization_noise(in, quantized, energies));
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
    std::array const elements{extent_of(requests.in)...};
    std::array<loft::status, sizeof...(O)> outcomes{};
    for (std::size_t i = 0; i < count; ++i)
      if (work.copies[i].size() < elements[i]) work.copies[i].resize(elements[i]);
    work.pool.run(count, [&](int piece) {
      std::size_t const p = static_cast<std::size_t>(piece);
      std::size_t i = 0;
      ((i++ == p ? outcomes[p] = substitute(requests, work.copies[p].data(), read[p]) : loft::status::ok), ...);
    });
    for (auto const outcome : outcomes) require_ok(outcome);
  }
  if (work.report != nullptr) {
    std::size_t i = 0;
    ((add_to_report(requests, read[i], static_cast<slot>(first + static_cast<int>(i)), *work.report), ++i), ...);
  }
  return read;
}

template <class T> using matrix_map = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
template <class T>
using strided_map = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, Eigen::Unaligned,
                               Eigen::OuterStride<>>;
template <class T>
using const_strided_map = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> const,
                                     Eigen::Unaligned, Eigen::OuterStride<>>;
template <class T>
using const_matrix_map = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> const>;

/// The sizes of a layer. Its output lies in a matrix of its own, or is columns of a wider one.
struct linear_shape {
  std::int64_t rows;
  int in, out;              // C and OC
  std::int64_t out_stride;  // from one row of the output to the next, in elements
};

/// What the forward pass reads; bias may be null.
template <class T> struct linear_inputs { T const *inp, *weight, *bias; };

/// What the backward pass adds to; that of the bias may be null.
template <class T> struct linear_gradients { T *inp, *weight, *bias; };

/// out = inp * weight^T + bias
template <class R, class T>
void matmul_forward(T* out, linear_inputs<T> const& from, linear_shape const& shape, R const& recipe,
                    workspace<T>& work) {
  auto const now = loft::reseed(recipe, work.seed, work.stream);
  auto const [x, w] =
      prepare<T>(work, fprop_left, request{now.fprop.left, const_view<T>{from.inp, shape.rows, shape.in, shape.in}},
                 request{now.fprop.right, const_view<T>{from.weight, shape.out, shape.in, shape.in}});
  work.pool.for_parts(shape.rows, [&, x = x, w = w](range r) {
    strided_map<T> result{out + r.begin * shape.out_stride, r.end - r.begin, shape.out, shape.out_stride};
    const_matrix_map<T> const left{x + r.begin * shape.in, r.end - r.begin, shape.in};
    const_matrix_map<T> const right{w, shape.out, shape.in};
    result.noalias() = left * right.transpose();
    if (from.bias != nullptr)
      for (std::int64_t row = 0; row < result.rows(); ++row)
        for (int i = 0; i < shape.out; ++i) result(row, i) += from.bias[i];
  });
}

/// Takes the gradient of the output, and what the forward pass read but for the bias, which is not read.
template <class R, class T>
void matmul_backward(linear_gradients<T> const& to, T const* dout, linear_inputs<T> const& from,
                     linear_shape const& shape, R const& recipe, workspace<T>& work) {
  const_view<T> const x{from.inp, shape.rows, shape.in, shape.in}, w{from.weight, shape.out, shape.in, shape.in},
      dy{dout, shape.rows, shape.out, shape.out_stride};
  auto const now = loft::reseed(recipe, work.seed, work.stream);
  auto const read =
      prepare<T>(work, dgrad_left, request{now.dgrad.left, dy}, request{now.dgrad.right, loft::transposed(w)},
                 request{now.wgrad.left, loft::transposed(dy)}, request{now.wgrad.right, loft::transposed(x)});
  work.pool.for_parts(shape.rows, [&](range r) {
    const_strided_map<T> const left{read[0] + r.begin * shape.out_stride, r.end - r.begin, shape.out, shape.out_stride};
    const_matrix_map<T> const right{read[1], shape.out, shape.in};
    matrix_map<T>{to.inp + r.begin * shape.in, r.end - r.begin, shape.in}.noalias() += left * right;
  });
  constexpr bool estimates = requires { now.estimator; };
  std::int64_t const weights = shape.out * std::int64_t{shape.in};
  T* const product = estimates ? work.gradient_of(weights) : to.weight;
  work.pool.for_parts(shape.out, [&](range r) {
    const_strided_map<T> const left{read[2], shape.rows, shape.out, shape.out_stride};
    const_matrix_map<T> const right{read[3], shape.rows, shape.in};
    matrix_map<T>{product + r.begin * shape.in, r.end - r.begin, shape.in}.noalias() +=
        left.middleCols(r.begin, r.end - r.begin).transpose() * right;
    if (to.bias != nullptr)  // not quantized: it is a sum, not a product
      for (std::int64_t row = 0; row < shape.rows; ++row)
        for (auto i = r.begin; i < r.end; ++i) to.bias[i] += dout[row * shape.out_stride + i];
  });
  if constexpr (estimates) {
    loft::matrix_view<T> const gradient{product, shape.out, shape.in, shape.in};
    require_ok(estimate_gradient(gradient, w, now.fprop.right, now.estimator));
    for (std::int64_t i = 0; i < weights; ++i) to.weight[i] += product[i];
  }
}

/// Replaces values [rows, cols] by what a recipe that `keeps` activations in few bits has of them in the backward pass;
/// others leave them as they are.
template <class R, class T> void keep_values(T* values, std::int64_t rows, int cols, R const& recipe) {
  if constexpr (requires { recipe.keeps; }) {
    loft::matrix_view<T> const view{values, rows, cols, cols};
    require_ok(fake_quantize(view, view, recipe.keeps));
  }
}

/// The functions for one recipe, so that what calls them need not be a template. The recipe must outlive this.
template <class T> class linear {
 public:
  template <class R>
  explicit linear(R const& recipe)
      : recipe_{&recipe},
        forward_{[](void const* r, T* out, linear_inputs<T> const& from, linear_shape const& shape,
                    workspace<T>& work) { matmul_forward(out, from, shape, *static_cast<R const*>(r), work); }},
        backward_{[](void const* r, linear_gradients<T> const& to, T const* dout, linear_inputs<T> const& from,
                     linear_shape const& shape,
                     workspace<T>& work) { matmul_backward(to, dout, from, shape, *static_cast<R const*>(r), work); }},
        keep_{[](void const* r, T* values, std::int64_t rows, int cols) {
          keep_values(values, rows, cols, *static_cast<R const*>(r));
        }} {}

  void forward(T* out, linear_inputs<T> const& from, linear_shape const& shape, workspace<T>& work) const {
    forward_(recipe_, out, from, shape, work);
  }
  void backward(linear_gradients<T> const& to, T const* dout, linear_inputs<T> const& from, linear_shape const& shape,
                workspace<T>& work) const {
    backward_(recipe_, to, dout, from, shape, work);
  }
  void keep(T* values, std::int64_t rows, int cols) const { keep_(recipe_, values, rows, cols); }

  friend bool operator==(linear const& a, linear const& b) noexcept { return a.recipe_ == b.recipe_; }

 private:
  void const* recipe_;
  void (*forward_)(void const*, T*, linear_inputs<T> const&, linear_shape const&, workspace<T>&);
  void (*backward_)(void const*, linear_gradients<T> const&, T const*, linear_inputs<T> const&, linear_shape const&,
                    workspace<T>&);
  void (*keep_)(void const*, T*, std::int64_t, int);
};

/// The layers of a plan, each for its place and time. The plan must outlive this, and what it gives.
template <class T> class planned_linears {
 public:
  template <class Main, class Safe>
  explicit planned_linears(loft::plan<Main, Safe> const& plan)
      : plan_{&plan}, changes_{plan.except.from < 1}, pick_{[](void const* p, loft::layer_place at, double progress) {
          return static_cast<loft::plan<Main, Safe> const*>(p)->visit(
              at, progress, [](auto const& recipe) { return linear<T>{recipe}; });
        }} {}

  linear<T> at(loft::layer_place place, double progress) const { return pick_(plan_, place, progress); }
  bool changes() const noexcept { return changes_; }

 private:
  void const* plan_;
  bool changes_;
  linear<T> (*pick_)(void const*, loft::layer_place, double);
};

}  // namespace char_gpt
