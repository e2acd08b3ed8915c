// SPDX-License-Identifier: Apache-2.0
// The program as a function, so that tests can run it.
#pragma once

#include <iosfwd>

namespace char_gpt {

/// The exit code: 0, 2 for what the user must mend, 1 for other failures. The table goes to `out`, the times to `err`,
/// and so does an error, as one sentence.
int run(int argc, char const* const* argv, std::ostream& out, std::ostream& err);

}  // namespace char_gpt
