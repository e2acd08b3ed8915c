// SPDX-License-Identifier: Apache-2.0
// A control of the floors: a header of a floor that includes a facade.
#pragma once
#include "loft/number.hpp"
