// SPDX-License-Identifier: Apache-2.0
// A control of the floors: a generic header that includes <cmath>.
#pragma once
#include <cmath>
