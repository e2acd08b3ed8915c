// SPDX-License-Identifier: Apache-2.0
// A control of the floors: a header that names another one by a relative path.
#pragma once
#include "convert.hpp"
