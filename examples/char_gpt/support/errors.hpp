// SPDX-License-Identifier: Apache-2.0
// The errors of the program: those that are the user's to mend, and refusals of the library.
#pragma once

#include <loft/tensor.hpp>
#include <stdexcept>

namespace char_gpt {

/// A bad option, file or size. It ends the program with exit code 2.
struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws where the library refused a call: what the options allow should not come to that.
inline void require_ok(loft::status outcome) {
  if (outcome != loft::status::ok) throw std::runtime_error{loft::message(outcome)};
}

}  // namespace char_gpt
