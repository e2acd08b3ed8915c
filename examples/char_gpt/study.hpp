// SPDX-License-Identifier: Apache-2.0
// Questions that take many trainings; each prints a table and writes the files that the options name.
#pragma once

#include <iosfwd>

#include "options.hpp"
#include "text.hpp"
#include "thread_pool.hpp"

namespace char_gpt {

/// What GNMR is worth where activations are kept for the backward pass in few bits: against those bits alone, against 8
/// bits, and against two other ways to choose which layers keep 8 bits.
void study_gnmr(options const& o, split_text const& text, thread_pool& pool, std::ostream& out);

/// Weights that are stored in few bits without a copy in float: the step at which they were said to freeze, and at which
/// they did.
void study_freeze(options const& o, split_text const& text, thread_pool& pool, std::ostream& out);

}  // namespace char_gpt
