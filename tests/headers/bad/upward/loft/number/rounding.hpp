// SPDX-License-Identifier: Apache-2.0
// A control of the floors: a header that includes one of a floor above.
#pragma once
#include <loft/block/rules.hpp>
