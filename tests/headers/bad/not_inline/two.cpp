// SPDX-License-Identifier: Apache-2.0
// The second of the two units.
#include <loft/twice.hpp>
