// SPDX-License-Identifier: Apache-2.0
// The layers of nGPT. Every loop writes disjoint parts, and every sum has one order.
#include "char_gpt/model/ngpt_layers.hpp"

#include <algorithm>
#include <cmath>

#include "char_gpt/support/sums.hpp"

namespace char_gpt {
namespace {

/// What justnorm multiplies with.
template <class T> T inverse_of(T norm) { return T{1} / (norm + T(1e-6)); }

template <class T, class F> T norm_of(std::int64_t count, F const& f) {
  return std::sqrt(sum<T>(count, [&](std::int64_t i) { return f(i) * f(i); }));
}

/// With y = x / (n + e), n = ||x||, and d the gradient of y, that of x is d / (n + e) - y (d . y) / n. This is the
/// factor of y; at x = 0, where y is 0 too, the derivative is the first term alone.
template <class T, class D, class Y> T along(std::int64_t count, T norm, D const& d, Y const& y) {
  return norm > 0 ? sum<T>(count, [&](std::int64_t i) { return d(i) * y(i); }) / norm : T{0};
}

}  // namespace

template <class T> void unit_rows_forward(T* rows, T* norms, extent size, thread_pool& pool) {
  std::int64_t const count = size.rows;
  int const width = size.width;
  pool.for_parts(count, [&](range part) {
    for (auto row = part.begin; row < part.end; ++row) {
      T* const x = rows + row * width;
      T const norm = norm_of<T>(width, [&](std::int64_t i) { return x[i]; }), inverse = inverse_of(norm);
      for (int i = 0; i < width; ++i) x[i] *= inverse;
      if (norms != nullptr) norms[row] = norm;
    }
  });
}

template <class T> void unit_rows_backward(T* gradient, T const* out, T const* norms, extent size, thread_pool& pool) {
  std::int64_t const count = size.rows;
  int const width = size.width;
  pool.for_parts(count, [&](range part) {
    for (auto row = part.begin; row < part.end; ++row) {
      T* const d = gradient + row * width;
      T const* const y = out + row * width;
      T const inverse = inverse_of(norms[row]);
      T const back = along<T>(
          width, norms[row], [&](std::int64_t i) { return d[i]; }, [&](std::int64_t i) { return y[i]; });
      for (int i = 0; i < width; ++i) d[i] = d[i] * inverse - y[i] * back;
    }
  });
}

template <class T> void unit_columns(T* matrix, extent size, thread_pool& pool) {
  std::int64_t const rows = size.rows;
  int const width = size.width;
  pool.for_parts(width, [&](range columns) {
    for (auto i = columns.begin; i < columns.end; ++i) {
      T const inverse = inverse_of(norm_of<T>(rows, [&](std::int64_t row) { return matrix[row * width + i]; }));
      for (std::int64_t row = 0; row < rows; ++row) matrix[row * width + i] *= inverse;
    }
  });
}

template <class T> void unit_step_forward(T* out, unit_step<T> const& step, thread_pool& pool) {
  pool.for_parts(step.size.rows, [&](range part) {
    int const width = step.size.width;
    channel_scale<T> const length = step.length;
    for (auto row = part.begin; row < part.end; ++row) {
      T const* const b = step.branch + row * width;
      T const* const x = step.stream + row * width;
      T* const y = out + row * width;
      T const norm = norm_of<T>(width, [&](std::int64_t i) { return b[i]; }), inverse = inverse_of(norm);
      for (int i = 0; i < width; ++i)
        y[i] = x[i] + std::abs(length.parameter[i] * length.factor) * (b[i] * inverse - x[i]);
      T const outer = norm_of<T>(width, [&](std::int64_t i) { return y[i]; }), outer_inverse = inverse_of(outer);
      for (int i = 0; i < width; ++i) y[i] *= outer_inverse;
      step.branch_norms[row] = norm;
      step.outer_norms[row] = outer;
    }
  });
}

template <class T>
void unit_step_backward(T* dstream, T* dbranch, T const* out, unit_step<T> const& step, thread_pool& pool) {
  std::int64_t const rows = step.size.rows;
  int const width = step.size.width;
  T const *const branch = step.branch, *const stream = step.stream, *const branch_norms = step.branch_norms;
  channel_scale<T> const length = step.length;
  unit_rows_backward<T>(dstream, out, step.outer_norms, step.size, pool);  // from here on of stream + a (...)
  auto const size = [&](std::int64_t i) { return std::abs(length.parameter[i] * length.factor); };
  pool.for_parts(rows, [&](range part) {
    for (auto row = part.begin; row < part.end; ++row) {
      T const* const b = branch + row * width;
      T const* const d = dstream + row * width;
      T const inverse = inverse_of(branch_norms[row]);
      auto const dunit = [&](std::int64_t i) { return d[i] * size(i); };
      auto const unit = [&](std::int64_t i) { return b[i] * inverse; };
      T const back = along<T>(width, branch_norms[row], dunit, unit);
      for (int i = 0; i < width; ++i) dbranch[row * width + i] = dunit(i) * inverse - unit(i) * back;
    }
  });
  pool.for_parts(width, [&](range columns) {
    for (std::int64_t row = 0; row < rows; ++row) {
      T const inverse = inverse_of(branch_norms[row]);
      for (auto i = columns.begin; i < columns.end; ++i) {
        T& d = dstream[row * width + i];
        T const towards = d * (branch[row * width + i] * inverse - stream[row * width + i]);
        length.gradient[i] += std::copysign(length.factor, length.factor * length.parameter[i]) * towards;
        d *= T{1} - size(i);
      }
    }
  });
}

template <class T> void unit_heads_forward(T* out, unit_heads<T> const& how, thread_pool& pool) {
  std::int64_t const rows = how.size.rows;
  int const width = how.size.width;
  int const heads = how.heads, size = width / heads;
  T const* const qkv = how.qkv;
  channel_scale<T> const scale = how.scale;
  pool.for_parts(rows, [&](range part) {
    for (auto row = part.begin; row < part.end; ++row) {
      for (int head = 0; head < 2 * heads; ++head) {  // of the queries, then of the keys
        T const* const x = qkv + row * 3 * width + head * size;
        T* const y = out + row * 3 * width + head * size;
        T const* const parameter = scale.parameter + head % heads * size;
        T const norm = norm_of<T>(size, [&](std::int64_t i) { return x[i]; }), inverse = inverse_of(norm);
        for (int i = 0; i < size; ++i) y[i] = x[i] * inverse * (parameter[i] * scale.factor);
        how.norms[row * 2 * heads + head] = norm;
      }
      T const* const values = qkv + (row * 3 + 2) * width;
      std::copy(values, values + width, out + (row * 3 + 2) * width);
    }
  });
}

template <class T> void unit_heads_backward(T* gradient, unit_heads<T> const& how, thread_pool& pool) {
  std::int64_t const rows = how.size.rows;
  int const width = how.size.width;
  int const heads = how.heads, size = width / heads;
  T const* const qkv = how.qkv;
  channel_scale<T> const scale = how.scale;
  pool.for_parts(heads, [&](range some) {  // rows share the scales of a head, heads do not
    for (std::int64_t row = 0; row < rows; ++row)
      for (auto head = some.begin; head < some.end; ++head)
        for (auto place : {head, heads + head}) {
          T const* const x = qkv + row * 3 * width + place * size;
          T* const d = gradient + row * 3 * width + place * size;
          T const norm = how.norms[row * 2 * heads + place], inverse = inverse_of(norm);
          auto const unit = [&](std::int64_t i) { return x[i] * inverse; };
          for (int i = 0; i < size; ++i) {
            scale.gradient[head * size + i] += d[i] * unit(i) * scale.factor;
            d[i] *= scale.parameter[head * size + i] * scale.factor;
          }
          T const back = along<T>(
              size, norm, [&](std::int64_t i) { return d[i]; }, unit);
          for (int i = 0; i < size; ++i) d[i] = d[i] * inverse - unit(i) * back;
        }
  });
}

template <class T> void scale_forward(T* out, T const* inp, channel_scale<T> scale, extent size, thread_pool& pool) {
  std::int64_t const rows = size.rows;
  int const width = size.width;
  pool.for_parts(rows, [&](range part) {
    for (auto row = part.begin; row < part.end; ++row)
      for (int i = 0; i < width; ++i) out[row * width + i] = inp[row * width + i] * (scale.parameter[i] * scale.factor);
  });
}

template <class T>
void scale_backward(T* gradient, T const* inp, channel_scale<T> scale, extent size, thread_pool& pool) {
  std::int64_t const rows = size.rows;
  int const width = size.width;
  pool.for_parts(width, [&](range columns) {
    for (std::int64_t row = 0; row < rows; ++row)
      for (auto i = columns.begin; i < columns.end; ++i) {
        T& d = gradient[row * width + i];
        scale.gradient[i] += d * inp[row * width + i] * scale.factor;
        d *= scale.parameter[i] * scale.factor;
      }
  });
}

// As in layers.cpp.
template decltype(unit_rows_forward<float>) unit_rows_forward<float>;
template decltype(unit_rows_backward<float>) unit_rows_backward<float>;
template decltype(unit_columns<float>) unit_columns<float>;
template decltype(unit_step_forward<float>) unit_step_forward<float>;
template decltype(unit_step_backward<float>) unit_step_backward<float>;
template decltype(unit_heads_forward<float>) unit_heads_forward<float>;
template decltype(unit_heads_backward<float>) unit_heads_backward<float>;
template decltype(scale_forward<float>) scale_forward<float>;
template decltype(scale_backward<float>) scale_backward<float>;
template decltype(unit_rows_forward<double>) unit_rows_forward<double>;
template decltype(unit_rows_backward<double>) unit_rows_backward<double>;
template decltype(unit_columns<double>) unit_columns<double>;
template decltype(unit_step_forward<double>) unit_step_forward<double>;
template decltype(unit_step_backward<double>) unit_step_backward<double>;
template decltype(unit_heads_forward<double>) unit_heads_forward<double>;
template decltype(unit_heads_backward<double>) unit_heads_backward<double>;
template decltype(scale_forward<double>) scale_forward<double>;
template decltype(scale_backward<double>) scale_backward<double>;

}  // namespace char_gpt
