// SPDX-License-Identifier: Apache-2.0
// The layers that stay in float32. Every loop writes disjoint parts, and every sum has one order.
#include "char_gpt/model/layers.hpp"

#include <algorithm>
#include <cmath>
#include <Eigen/Core>
#include <type_traits>

#include "char_gpt/support/sums.hpp"

namespace char_gpt {
namespace {

template <class T> using matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using matrix_like = std::conditional_t<std::is_const_v<T>, matrix<std::remove_const_t<T>> const, matrix<T>>;
template <class T> using strided = Eigen::Map<matrix_like<T>, Eigen::Unaligned, Eigen::OuterStride<>>;

/// Where one head of one sequence lies in the arrays of attention.
struct head_place {
  std::int64_t qkv, out, probabilities;
  int size;
};

template <class T> head_place place_of(int index, attention<T> const& how) {
  int const sequence = index / how.heads, head = index % how.heads, width = how.width, size = width / how.heads;
  std::int64_t const time = how.size.time, row = sequence * time;
  return {row * 3 * width + head * size, row * width + head * size, index * time * time, size};
}

/// The queries, keys and values of one head of one sequence, or their gradients: [time, size] each.
template <class T> struct projections { strided<T> query, key, value; };

template <class T> projections<T> projections_of(T* qkv, head_place at, int time, int width) {
  auto const part = [&](std::int64_t first) {
    return strided<T>{qkv + at.qkv + first, time, at.size, Eigen::OuterStride<>{std::int64_t{3} * width}};
  };
  return {part(0), part(width), part(std::int64_t{2} * width)};
}

/// Turns row[0..count) into its softmax.
template <class T> void softmax(T* row, int count) {
  T const top = *std::max_element(row, row + count);
  for (int i = 0; i < count; ++i) row[i] = std::exp(row[i] - top);
  T const scale = T{1} / sum<T>(count, [&](std::int64_t i) { return row[i]; });
  for (int i = 0; i < count; ++i) row[i] *= scale;
}

/// The logistic function of twice GELU's inner polynomial: GELU(x) = x * gate(x).
template <class T> T gate(T x) {
  return T{1} / (T{1} + std::exp(T(-1.5957691216057308) * (x + T(0.044715) * x * x * x)));  // 2 sqrt(2 / pi)
}

}  // namespace

template <class T>
void embedding_forward(T* out, std::uint8_t const* tokens, embedding_tables<T> tables, sizes s, int width,
                       thread_pool& pool) {
  pool.for_parts(s.rows(), [&](range rows) {
    for (auto row = rows.begin; row < rows.end; ++row) {
      T const* token = tables.token + std::int64_t{tokens[row]} * width;
      T const* position = tables.position + row % s.time * width;
      for (int i = 0; i < width; ++i) out[row * width + i] = token[i] + position[i];
    }
  });
}

template <class T>
void embedding_backward(embedding_tables<T> gradients, T const* dout, std::uint8_t const* tokens, sizes s, int width,
                        thread_pool& pool) {
  pool.for_parts(width, [&](range columns) {  // rows share table entries, columns do not
    for (std::int64_t row = 0; row < s.rows(); ++row) {
      T* dtoken = gradients.token + std::int64_t{tokens[row]} * width;
      T* dposition = gradients.position + row % s.time * width;
      for (auto i = columns.begin; i < columns.end; ++i) {
        dtoken[i] += dout[row * width + i];
        dposition[i] += dout[row * width + i];
      }
    }
  });
}

template <class T> void layer_norm_forward(T* out, T const* inp, layer_norm<T> const& norm, thread_pool& pool) {
  std::int64_t const rows = norm.size.rows;
  int const width = norm.size.width;
  pool.for_parts(rows, [&](range part) {
    for (auto row = part.begin; row < part.end; ++row) {
      T const* x = inp + row * width;
      T const m = sum<T>(width, [&](std::int64_t i) { return x[i]; }) / T(width);
      T const variance = sum<T>(width, [&](std::int64_t i) { return (x[i] - m) * (x[i] - m); }) / T(width);
      T const scale = T{1} / std::sqrt(variance + T(1e-5));
      for (int i = 0; i < width; ++i) out[row * width + i] = (x[i] - m) * scale * norm.weight[i] + norm.bias[i];
      norm.mean[row] = m;
      norm.inverse[row] = scale;
    }
  });
}

template <class T>
void layer_norm_backward(layer_norm_gradients<T> gradients, T const* dout, T const* inp, layer_norm<T> const& norm,
                         thread_pool& pool) {
  std::int64_t const rows = norm.size.rows;
  int const width = norm.size.width;
  pool.for_parts(rows, [&](range part) {
    for (auto row = part.begin; row < part.end; ++row) {
      T const* x = inp + row * width;
      T const* d = dout + row * width;
      T const m = norm.mean[row], scale = norm.inverse[row];
      auto const dnormal = [&](std::int64_t i) { return d[i] * norm.weight[i]; };
      auto const normal = [&](std::int64_t i) { return (x[i] - m) * scale; };
      T const plain = sum<T>(width, dnormal) / T(width);
      T const along = sum<T>(width, [&](std::int64_t i) { return dnormal(i) * normal(i); }) / T(width);
      for (int i = 0; i < width; ++i)
        gradients.inp[row * width + i] += (dnormal(i) - plain - normal(i) * along) * scale;
    }
  });
  pool.for_parts(width, [&](range columns) {
    for (std::int64_t row = 0; row < rows; ++row)
      for (auto i = columns.begin; i < columns.end; ++i) {
        T const d = dout[row * width + i];
        gradients.weight[i] += d * (inp[row * width + i] - norm.mean[row]) * norm.inverse[row];
        gradients.bias[i] += d;
      }
  });
}

template <class T> void attention_forward(T* out, attention<T> const& how, thread_pool& pool) {
  pool.run(how.size.batch * how.heads, [&](int index) {
    sizes const s = how.size;
    int const width = how.width;
    head_place const at = place_of(index, how);
    auto const [query, key, value] = projections_of(how.qkv, at, s.time, width);
    Eigen::Map<matrix<T>> weights{how.probabilities + at.probabilities, s.time, s.time};
    weights.noalias() = query * key.transpose() * how.scale;
    for (int row = 0; row < s.time; ++row) {
      T* const begin = weights.data() + std::int64_t{row} * s.time;
      softmax(begin, row + 1);
      std::fill(begin + row + 1, begin + s.time, T{0});  // a token sees no later one
    }
    strided<T>{out + at.out, s.time, at.size, Eigen::OuterStride<>{width}}.noalias() = weights * value;
  });
}

template <class T>
void attention_backward(T* dqkv, T* scratch, T const* dout, attention<T> const& how, thread_pool& pool) {
  pool.run(how.size.batch * how.heads, [&](int index) {
    sizes const s = how.size;
    int const width = how.width;
    head_place const at = place_of(index, how);
    auto const [query, key, value] = projections_of(how.qkv, at, s.time, width);
    auto [dquery, dkey, dvalue] = projections_of(dqkv, at, s.time, width);
    strided<T const> const dmixed{dout + at.out, s.time, at.size, Eigen::OuterStride<>{width}};
    Eigen::Map<matrix<T> const> const weights{how.probabilities + at.probabilities, s.time, s.time};
    Eigen::Map<matrix<T>> dscores{scratch + at.probabilities, s.time, s.time};
    dscores.noalias() = dmixed * value.transpose();
    for (int row = 0; row < s.time; ++row) {
      T* const d = dscores.data() + std::int64_t{row} * s.time;
      T const* const p = weights.data() + std::int64_t{row} * s.time;
      T const mean = sum<T>(row + 1, [&](std::int64_t i) { return d[i] * p[i]; });
      for (int i = 0; i < s.time; ++i) d[i] = p[i] * (d[i] - mean) * how.scale;  // p is 0 where the mask is
    }
    dquery.noalias() = dscores * key;
    dkey.noalias() = dscores.transpose() * query;
    dvalue.noalias() = weights.transpose() * dmixed;
  });
}

template <class T> void gelu_forward(T* out, T const* inp, std::int64_t count, thread_pool& pool) {
  pool.for_parts(count, [&](range part) {
    for (auto i = part.begin; i < part.end; ++i) out[i] = inp[i] * gate(inp[i]);
  });
}

template <class T> void gelu_backward(T* gradient, T const* inp, std::int64_t count, thread_pool& pool) {
  pool.for_parts(count, [&](range part) {
    for (auto i = part.begin; i < part.end; ++i) {
      T const x = inp[i], g = gate(x);
      T const inner = T(1.5957691216057308) * (T{1} + T(3 * 0.044715) * x * x);
      gradient[i] *= g + x * g * (T{1} - g) * inner;
    }
  });
}

template <class T>
double cross_entropy(T* logits, T* row_losses, std::uint8_t const* targets, extent size, thread_pool& pool) {
  std::int64_t const rows = size.rows;
  int const classes = size.width;
  pool.for_parts(rows, [&](range part) {
    for (auto row = part.begin; row < part.end; ++row) {
      T* const p = logits + row * classes;
      T const top = *std::max_element(p, p + classes), right = p[targets[row]];
      for (int i = 0; i < classes; ++i) p[i] = std::exp(p[i] - top);
      T const total = sum<T>(classes, [&](std::int64_t i) { return p[i]; });
      row_losses[row] = std::log(total) + top - right;
      T const scale = T{1} / (total * T(rows));
      for (int i = 0; i < classes; ++i) p[i] *= scale;
      p[targets[row]] -= T{1} / T(rows);
    }
  });
  double total = 0;
  for (std::int64_t row = 0; row < rows; ++row) total += static_cast<double>(row_losses[row]);
  return total / static_cast<double>(rows);
}

// What links against this file: float for training, and double for the gradient tests.
template decltype(embedding_forward<float>) embedding_forward<float>;
template decltype(embedding_backward<float>) embedding_backward<float>;
template decltype(layer_norm_forward<float>) layer_norm_forward<float>;
template decltype(layer_norm_backward<float>) layer_norm_backward<float>;
template decltype(attention_forward<float>) attention_forward<float>;
template decltype(attention_backward<float>) attention_backward<float>;
template decltype(gelu_forward<float>) gelu_forward<float>;
template decltype(gelu_backward<float>) gelu_backward<float>;
template decltype(cross_entropy<float>) cross_entropy<float>;
template decltype(embedding_forward<double>) embedding_forward<double>;
template decltype(embedding_backward<double>) embedding_backward<double>;
template decltype(layer_norm_forward<double>) layer_norm_forward<double>;
template decltype(layer_norm_backward<double>) layer_norm_backward<double>;
template decltype(attention_forward<double>) attention_forward<double>;
template decltype(attention_backward<double>) attention_backward<double>;
template decltype(gelu_forward<double>) gelu_forward<double>;
template decltype(gelu_backward<double>) gelu_backward<double>;
template decltype(cross_entropy<double>) cross_entropy<double>;

}  // namespace char_gpt
