// SPDX-License-Identifier: Apache-2.0
// What a call found: one name per mistake, and the sentence that explains it. Source: design section 3.
#pragma once

#include "loft/core/config.hpp"

namespace loft {

/// What a call found. Everything but `ok` is found before the first write: the outputs are untouched.
enum class status {
  ok,
  null_pointer,
  negative_extent,
  extent_overflow,
  shape_mismatch,
  overlapping_output,
  missing_tensor_scale,
  rotation_does_not_divide,
  invalid_amax,
  invalid_scale,
  invalid_row_range,
  misaligned_pointer,
  not_contiguous,
  workspace_too_small,
  launch_failed,
  norm_count_mismatch,
  too_many_units,
  invalid_alpha,
  invalid_beta,
  invalid_window,
  invalid_budget,
  invalid_lock,
  invalid_warmup,
  invalid_history,
  buffer_too_small,
  foreign_state,
  truncated_state,
  newer_state,
  option_mismatch,
  corrupt_state,
  invalid_estimator,
  invalid_quantile,
};

/// The status as a sentence.
LOFT_HOST_DEVICE constexpr char const* message(status s) noexcept {
  using enum status;
  // clang-format off
  switch (s) {
    case ok: return "no error";
    case null_pointer: return "a view with elements has a null pointer";
    case negative_extent: return "a view has a negative number of rows or columns";
    case extent_overflow: return "rows times columns is 2^58 or more: their bits cannot be counted";
    case shape_mismatch: return "two views differ in rows or columns that have to be the same";
    case overlapping_output:
      return "the output shares memory with itself, or with an input: check pointers and strides";
    case missing_tensor_scale: return "the format has a tensor scale, and the view has no place for it";
    case rotation_does_not_divide: return "the number of columns is not a multiple of the rotation's size";
    case invalid_amax: return "the known amax of the two-level rule is not finite";
    case invalid_scale: return "the fixed scale is not a positive number that the scale format has";
    case invalid_row_range: return "the range of rows does not start at a block or leaves the tensor";
    case misaligned_pointer: return "a pointer is no multiple of what its numbers are aligned to";
    case not_contiguous: return "this call takes contiguous rows of whole blocks that start at multiples of 16 bytes";
    case workspace_too_small: return "the workspace is missing or smaller than the call asks for";
    case launch_failed: return "the device refused the launch";
    case norm_count_mismatch: return "the lists of tensors, partials, norms and units differ in length";
    case too_many_units: return "there are more units than an int counts";
    case invalid_alpha: return "a threshold of the ratio is not a positive finite number";
    case invalid_beta: return "the threshold of the jump is not a positive finite number";
    case invalid_window: return "the window of the jump is not from 1 to 16 steps";
    case invalid_budget: return "the budget of active units is negative";
    case invalid_lock: return "the number of steps of the lock is negative";
    case invalid_warmup: return "a number of first steps is negative";
    case invalid_history: return "the history's rate is not above 0 and at most 1, or its length is below 1";
    case buffer_too_small: return "the buffer is smaller than what is to be stored in it";
    case foreign_state: return "the bytes are not a saved state of the controller";
    case truncated_state: return "the saved state ends too early";
    case newer_state: return "the saved state is of a newer version of the library";
    case option_mismatch: return "the state was saved by a controller with other options or policies";
    case corrupt_state: return "the saved state was altered: its hash or its contents are wrong";
    case invalid_estimator: return "k of the estimator is not finite or below 1, or its cap is not positive and finite";
    case invalid_quantile: return "the quantile is not a number from 0.5 to 1";
  }
  // clang-format on
  return "unknown status";
}

}  // namespace loft
