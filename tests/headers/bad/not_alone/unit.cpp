// SPDX-License-Identifier: Apache-2.0
// The unit that shows it.
#include <loft/needy.hpp>
