// SPDX-License-Identifier: Apache-2.0
// A control of the level check: includes a header of its own level.
#pragma once
#include <loft/scaling.hpp>
