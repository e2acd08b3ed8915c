// SPDX-License-Identifier: Apache-2.0
// A control of the level check: includes a higher level, by a relative name.
#pragma once
#include "convert.hpp"
