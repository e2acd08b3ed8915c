// SPDX-License-Identifier: Apache-2.0
// A control of the floors: the other.
#pragma once
#include "loft/block/one.hpp"
