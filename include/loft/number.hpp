// SPDX-License-Identifier: Apache-2.0
// One number: formats, roundings, encode, decode, minifloat; and arrays of numbers and of packed codes.
#pragma once

#include "loft/array/convert_array.hpp"
#include "loft/array/packing.hpp"
#include "loft/number/convert.hpp"
#include "loft/number/format.hpp"
#include "loft/number/formats.hpp"
#include "loft/number/minifloat.hpp"
#include "loft/number/random.hpp"
#include "loft/number/rounding.hpp"
