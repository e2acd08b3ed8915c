// SPDX-License-Identifier: Apache-2.0
// The one kind of error that is the user's to mend: a bad option, file or size. It ends the program with exit code 2.
#pragma once

#include <stdexcept>

namespace char_gpt {

struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace char_gpt
