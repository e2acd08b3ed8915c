// SPDX-License-Identifier: Apache-2.0
// A control of the floors: a header that includes itself by way of another.
#pragma once
#include "loft/block/two.hpp"
