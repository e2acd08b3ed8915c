// SPDX-License-Identifier: Apache-2.0
// A control of the floors: a header that includes a detail of another folder.
#pragma once
#include "loft/block/detail/codes.hpp"
